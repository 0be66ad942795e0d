package summary

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/lib/quantity"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/output/termtext"
)

// notes returns the notes on facts that changed no result.
func (s *summary) notes() []string {
	var lines []string
	lines = append(lines, s.bases()...)
	lines = append(lines, s.unenforced()...)
	lines = append(lines, s.omitted()...)
	return append(lines, s.warnings()...)
}

// bases returns a note for each base that replaced the requested images: which trials ran on it, in
// place of what, and why. It omits those that the job file asks for, which are known to the user
// who runs the job; the reports for others have them.
func (s *summary) bases() []string {
	trials := map[string]int{}
	instead := map[string]map[string]int{} // number of trials by base and description
	for _, t := range s.where(func(t *result.Trial) bool { e := t.Environment; return e != nil && e.Base != nil && !e.Base.Asked }) {
		base := *t.Environment.Base
		actual := termtext.FirstLine(base.Actual)
		if instead[actual] == nil {
			instead[actual] = map[string]int{}
		}
		trials[actual]++
		instead[actual][termtext.FirstLine(base.Requested)+" ("+termtext.FirstLine(base.Reason)+")"]++
	}
	var lines []string
	actuals := slices.Sorted(maps.Keys(trials))
	for _, actual := range actuals[:min(len(actuals), maxExamples)] {
		lines = append(lines, s.note(plural.Count(trials[actual], "trial")+" did NOT run on the image asked for, but on"))
		lines = append(lines, s.quote(actual)...)
		whats := slices.Sorted(maps.Keys(instead[actual]))
		for _, what := range whats[:min(len(whats), maxExamples)] {
			lines = append(lines, s.quote(plural.Count(instead[actual][what], "trial")+" asked for "+what)...)
		}
		lines = append(lines, more(len(whats)-maxExamples)...)
	}
	return append(lines, more(len(actuals)-maxExamples)...)
}

// limitNames are the names of limits for users; memory and storage need none.
var limitNames = map[string]string{"cpus": "CPU", "pids": "process"}

// unenforced returns a note for each limit that a provider could not apply.
func (s *summary) unenforced() []string {
	counts := map[string]int{}
	for _, t := range s.where(func(t *result.Trial) bool { return t.Environment != nil }) {
		for _, limit := range t.Environment.Unenforced {
			counts[cmp.Or(limitNames[limit], untrusted.Line(limit))+" limit not enforced by "+untrusted.Line(t.Environment.Provider)]++
		}
	}
	var lines []string
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		lines = append(lines, s.note(fmt.Sprintf("%s (%s)", what, plural.Count(counts[what], "trial"))))
	}
	return lines
}

// omitted lists the trials whose logs were cut or left out.
func (s *summary) omitted() []string {
	trials := s.where(func(t *result.Trial) bool { return len(t.Omitted) > 0 })
	if len(trials) == 0 {
		return nil
	}
	lines := []string{s.note(plural.Count(len(trials), "trial") + " with logs cut or left out:")}
	for _, t := range trials[:min(len(trials), maxExamples)] {
		first := t.Omitted[0]
		what := untrusted.Line(first.Path) + ": " + termtext.FirstLine(first.Reason)
		if rest := len(t.Omitted) - 1; rest > 0 {
			what += fmt.Sprintf(", and %d more", rest)
		}
		lines = append(lines, "  "+s.dir(t.Key)+"  "+s.styles.Dim.Render(what))
	}
	return append(lines, more(len(trials)-maxExamples)...)
}

// warnings counts the warnings of the trials and quotes the first. It leaves out trials that ended
// with their provider.
func (s *summary) warnings() []string {
	trials := s.where(func(t *result.Trial) bool { return len(t.Warnings) > 0 && !t.EndedUnreachable() })
	if len(trials) == 0 {
		return nil
	}
	count := 0
	for _, t := range trials {
		count += len(t.Warnings)
	}
	first := trials[0]
	lines := []string{s.note(fmt.Sprintf("%s in %s, the first:", plural.Count(count, "warning"), plural.Count(len(trials), "trial")))}
	lines = append(lines, s.quote(termtext.FirstLine(first.Warnings[0]))...)
	return append(lines, "  "+s.dir(first.Key))
}

// kept lists the preserved environments, with the commands to enter and to remove them.
func (s *summary) kept() []string {
	trials := s.where(func(t *result.Trial) bool { return t.Environment != nil && t.Environment.Preserved })
	if len(trials) == 0 {
		return nil
	}
	lines := []string{plural.Count(len(trials), "environment") + " kept"}
	for _, t := range trials[:min(len(trials), maxExamples)] {
		lines = append(lines, "  "+enter(*t.Environment)+"  "+s.styles.Dim.Render("# "+termtext.TrialName(&t.Key)))
	}
	lines = append(lines, more(len(trials)-maxExamples)...)
	return append(lines, "  remove them: "+cleanKept(trials))
}

// outcomes counts the outcomes that were kept, with the command to remove them.
func (s *summary) outcomes() []string {
	trials := s.where(func(t *result.Trial) bool { return t.Environment != nil && len(t.Outcomes()) > 0 })
	if len(trials) == 0 {
		return nil
	}
	n, bytes := 0, int64(0)
	for _, t := range trials {
		for _, kept := range t.Outcomes() {
			n, bytes = n+1, bytes+kept.Bytes
		}
	}
	return []string{
		fmt.Sprintf("%s kept for rollout verify, up to %s", plural.Count(n, "outcome"), quantity.Size(bytes)),
		"  remove them: " + cleanKept(trials),
	}
}

// cleanKept returns the command that removes the kept environments. It names the provider unless
// that is the default.
func cleanKept(trials []*result.Trial) string {
	if provider := trials[0].Environment.Provider; plainID.MatchString(provider) {
		return environment.CleanCommand(provider, "--kept")
	}
	return "rollout clean --kept"
}

// plainID matches identifiers that need no quotes on a command line.
var plainID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)

// enter returns the command that opens a shell in a kept environment, if there is one.
func enter(e result.Environment) string {
	if e.Provider == "sandbox" && plainID.MatchString(e.ID) {
		return "sandbox " + e.ID + ": its changed files are in env/" + e.ID + "/up of the provider's directory"
	}
	if e.Provider != "docker" || !plainID.MatchString(e.ID) {
		return "in " + untrusted.Line(e.Provider) + ": " + untrusted.Line(e.ID)
	}
	id := e.ID
	if len(id) == 64 && strings.Trim(id, "0123456789abcdef") == "" {
		id = id[:12] // the length in docker ps
	}
	return fmt.Sprintf("docker start %s && docker exec -it %s bash", id, id)
}

func (s *summary) note(text string) string { return s.styles.Dim.Render("note:") + " " + text }

// where returns the notable trials that is reports true for.
func (s *summary) where(is func(*result.Trial) bool) (trials []*result.Trial) {
	for _, packed := range s.trials {
		if !packed.Notable() {
			continue
		}
		if t := packed.Unpack(); is(t) {
			trials = append(trials, t)
		}
	}
	return trials
}
