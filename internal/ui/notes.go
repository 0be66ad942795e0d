package ui

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/internal/untrusted"
)

// notes is what did not change any result and still should be known.
func (s *summary) notes() []string {
	var lines []string
	lines = append(lines, s.bases()...)
	lines = append(lines, s.unenforced()...)
	lines = append(lines, s.omitted()...)
	return append(lines, s.warnings()...)
}

// bases says which trials ran on something else than the image that was asked for: a note for each base
// that stood in, and below it instead of what, and why. Where the job asked for it, a line says so.
func (s *summary) bases() []string {
	trials, asked := map[string]int{}, map[string]int{}
	instead := map[string]map[string]int{} // how many trials, by base and by what is said of it
	for _, t := range s.Trials {
		if t.Environment == nil || t.Environment.Base == nil {
			continue
		}
		base := *t.Environment.Base
		actual := firstLine(base.Actual)
		if base.Asked {
			asked[actual+" ("+firstLine(base.Reason)+")"]++
			continue
		}
		if instead[actual] == nil {
			instead[actual] = map[string]int{}
		}
		trials[actual]++
		instead[actual][firstLine(base.Requested)+" ("+firstLine(base.Reason)+")"]++
	}
	var lines []string
	actuals := slices.Sorted(maps.Keys(trials))
	for _, actual := range actuals[:min(len(actuals), maxExamples)] {
		lines = append(lines, s.note(plural(trials[actual], "trial")+" did NOT run on the image asked for, but on"))
		lines = append(lines, s.quote(actual)...)
		whats := slices.Sorted(maps.Keys(instead[actual]))
		for _, what := range whats[:min(len(whats), maxExamples)] {
			lines = append(lines, s.quote(plural(instead[actual][what], "trial")+" asked for "+what)...)
		}
		lines = append(lines, more(len(whats)-maxExamples)...)
	}
	lines = append(lines, more(len(actuals)-maxExamples)...)
	whats := slices.Sorted(maps.Keys(asked))
	for _, what := range whats[:min(len(whats), maxExamples)] {
		lines = append(lines, s.note(plural(asked[what], "trial")+" ran on "+what))
	}
	return append(lines, more(len(whats)-maxExamples)...)
}

// limitNames are the limits as people are told of them; memory and storage are called that.
var limitNames = map[string]string{"cpus": "CPU", "pids": "process"}

// unenforced says once per limit that a provider could not apply it.
func (s *summary) unenforced() []string {
	counts := map[string]int{}
	for _, t := range s.Trials {
		if t.Environment == nil {
			continue
		}
		for _, limit := range t.Environment.Unenforced {
			counts[cmp.Or(limitNames[limit], untrusted.Line(limit))+" limit not enforced by "+untrusted.Line(t.Environment.Provider)]++
		}
	}
	var lines []string
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		lines = append(lines, s.note(fmt.Sprintf("%s (%s)", what, plural(counts[what], "trial"))))
	}
	return lines
}

// omitted lists the trials whose logs were cut or left out.
func (s *summary) omitted() []string {
	trials := s.where(func(t result.Trial) bool { return len(t.Omitted) > 0 })
	if len(trials) == 0 {
		return nil
	}
	lines := []string{s.note(plural(len(trials), "trial") + " with logs cut or left out:")}
	for _, t := range trials[:min(len(trials), maxExamples)] {
		first := t.Omitted[0]
		what := untrusted.Line(first.Path) + ": " + firstLine(first.Reason)
		if rest := len(t.Omitted) - 1; rest > 0 {
			what += fmt.Sprintf(", and %d more", rest)
		}
		lines = append(lines, "  "+s.dir(t.Key)+"  "+s.look.dim.Render(what))
	}
	return append(lines, more(len(trials)-maxExamples)...)
}

// warnings counts the trials' warnings and shows the first. Those of trials that ended with their provider are about nothing else.
func (s *summary) warnings() []string {
	trials := s.where(func(t result.Trial) bool { return len(t.Warnings) > 0 && !t.EndedUnreachable() })
	if len(trials) == 0 {
		return nil
	}
	count := 0
	for _, t := range trials {
		count += len(t.Warnings)
	}
	first := trials[0]
	lines := []string{s.note(fmt.Sprintf("%s in %s, the first:", plural(count, "warning"), plural(len(trials), "trial")))}
	lines = append(lines, s.quote(firstLine(first.Warnings[0]))...)
	return append(lines, "  "+s.dir(first.Key))
}

// kept lists the preserved environments, how to look into them, and how to remove them.
func (s *summary) kept() []string {
	trials := s.where(func(t result.Trial) bool { return t.Environment != nil && t.Environment.Preserved })
	if len(trials) == 0 {
		return nil
	}
	lines := []string{plural(len(trials), "environment") + " kept"}
	for _, t := range trials[:min(len(trials), maxExamples)] {
		lines = append(lines, "  "+enter(*t.Environment)+"  "+s.look.dim.Render("# "+name(&t.Key)))
	}
	lines = append(lines, more(len(trials)-maxExamples)...)
	return append(lines, "  remove them: "+cleanKept(trials))
}

// cleanKept is the command that removes the kept environments; of another provider than the default it has to be
// told which.
func cleanKept(trials []result.Trial) string {
	command := "rollout clean --kept"
	if provider := trials[0].Environment.Provider; provider != "docker" && plainID.MatchString(provider) {
		command += " --env-type " + provider
	}
	return command
}

// plainID is an identifier that can be put into a command line as it is.
var plainID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)

// enter is the command that opens a shell in a kept environment, where there is one.
func enter(e result.Environment) string {
	if e.Provider == "sandbox" && plainID.MatchString(e.ID) {
		return "sandbox " + e.ID + ": what it changed is in env/" + e.ID + "/up of the provider's directory"
	}
	if e.Provider != "docker" || !plainID.MatchString(e.ID) {
		return "in " + untrusted.Line(e.Provider) + ": " + untrusted.Line(e.ID)
	}
	id := e.ID
	if len(id) == 64 && strings.Trim(id, "0123456789abcdef") == "" {
		id = id[:12] // as docker ps shows it
	}
	return fmt.Sprintf("docker start %s && docker exec -it %s bash", id, id)
}

func (s *summary) note(text string) string { return s.look.dim.Render("note:") + " " + text }

func (s *summary) where(is func(result.Trial) bool) []result.Trial {
	return slices.DeleteFunc(slices.Clone(s.Trials), func(t result.Trial) bool { return !is(t) })
}
