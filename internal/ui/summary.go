package ui

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/agent"
	"github.com/org/rollout-action/internal/plural"
	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/internal/untrusted"
)

// SummaryInput is the input of the final summary.
type SummaryInput struct {
	Job    result.Job
	Groups []result.Group
	Trials []result.Trial
	Dir    string // the job's directory as the user would type it
	// Missing: planned trials have no result, although the job was not cancelled.
	Missing bool
	// Resume is the command that resumes the job; "" if none does.
	Resume string
	// Partial: planned trials have no result, and the text after the summary explains why.
	Partial bool
}

// Limits of long lists; what is left out is counted.
const (
	maxExamples  = 5  // trials per error type, kept environments, cut logs
	maxNotPassed = 10 // trials with a reward below 1
)

// summary collects the sections of a summary. Its input may come from other people's artifacts, so all text is sanitized, and no
// line begins with it (see untrusted.Line).
type summary struct {
	SummaryInput
	styles   styles
	width    int
	sections [][]string
}

// Summary prints the outcome of a job from the files on disk: the job as a whole, a table per agent and dataset, the failures by
// error type, the trials that did not pass, and notes. Without color it writes plain text. Lines are at most width cells wide (0:
// 80), except those that users copy (paths, commands) and notes.
func Summary(w io.Writer, in SummaryInput, color bool, width int) {
	if width <= 0 {
		width = 80
	}
	in.Trials = slices.Clone(in.Trials)
	slices.SortFunc(in.Trials, func(a, b result.Trial) int { return a.Key.Compare(b.Key) })
	s := &summary{SummaryInput: in, styles: newStyles(color), width: max(width, 20)}
	s.add(s.headline())
	s.add(s.table())
	s.add(s.attempts())
	s.add(s.planned())
	s.failures()
	s.add(s.notPassed())
	s.add(s.notes())
	s.add(s.kept())
	s.add(s.results())
	var b strings.Builder
	for i, lines := range s.sections {
		if i > 0 {
			b.WriteByte('\n')
		}
		for _, line := range lines {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
	}
	_, _ = io.WriteString(w, b.String())
}

func (s *summary) add(lines []string) {
	if len(lines) > 0 {
		s.sections = append(s.sections, lines)
	}
}

// headline describes the outcome of the job as a whole.
func (s *summary) headline() []string {
	j := s.Job
	title := "Job " + s.styles.bold.Render(untrusted.Line(j.JobName))
	if j.Shard != nil {
		title += ", shard " + j.Shard.String()
	}
	trials := plural.Count(j.TotalTrials, "trial")
	switch {
	case s.Partial:
		return s.wrap(title + s.styles.warn.Render(fmt.Sprintf(" is incomplete: no result for %d of %s", j.SkippedTrials, trials)) + ".")
	case s.Missing:
		what := fmt.Sprintf(" is incomplete: no result for %d of %s", j.SkippedTrials, trials)
		if s.Resume == "" {
			return s.wrap(title + s.styles.warn.Render(what) + ". It is still running, or it was killed.")
		}
		return append(s.wrap(title+s.styles.warn.Render(what)+". It is still running, or it was killed. Resume it with:"),
			"  "+s.Resume) // commands are not wrapped
	case j.Cancelled && j.Errors[result.Cancelled] == 0: // an engine died, a disk was full, or no trial ran just then
		return s.wrap(title + s.styles.warn.Render(fmt.Sprintf(" is incomplete: of %s %d never started", trials, j.SkippedTrials)) + ".")
	case j.Cancelled:
		what := fmt.Sprintf(" was cancelled: of %s %d never started, %d were stopped", trials, j.SkippedTrials, j.Errors[result.Cancelled])
		return s.wrap(title + s.styles.warn.Render(what) + ".")
	}
	title += ": " + trials + " in " + took(j.TotalDurationSec)
	if j.TotalTrials > 0 && j.PassRateAll == 1 {
		title += ", " + s.styles.good.Render("all passed")
	}
	return s.wrap(title)
}

// planned explains the rates over all planned trials if they differ from those in the table, for each agent.
func (s *summary) planned() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(s.Job.Agents)) {
		if a := s.Job.Agents[name]; a.PassRate != a.PassRateAll || a.MeanReward != a.MeanRewardAll {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	all := func(a result.Summary) string {
		return fmt.Sprintf("the pass rate is %s and the mean %s", s.styles.bold.Render(percent(a.PassRateAll)), s.styles.bold.Render(number(a.MeanRewardAll)))
	}
	const completed = "The pass rate and the mean are over completed trials. Over all %d planned trials, where one without a reward counts as 0, %s"
	if len(s.Job.Agents) == 1 {
		return s.wrap(fmt.Sprintf(completed+".", s.Job.TotalTrials, all(s.Job.Agents[names[0]])))
	}
	lines := s.wrap(fmt.Sprintf(completed, s.Job.TotalTrials, "they are:"))
	for _, name := range names[:min(len(names), maxExamples)] {
		lines = append(lines, s.item("·", untrusted.Line(name)+": "+all(s.Job.Agents[name]))...)
	}
	return append(lines, more(len(names)-maxExamples)...)
}

// failures adds a section per error type: most frequent first, cancelled trials last. For trials that ended with their provider
// it adds one sentence: they did not cause it, and their messages are all the same.
func (s *summary) failures() {
	if text := result.UnreachableText(s.Trials); text != "" {
		s.add(s.wrap(s.styles.bad.Render("✗") + " " + text + "."))
	}
	byType := map[result.ErrorType][]result.Trial{}
	var types []result.ErrorType
	for _, t := range s.Trials {
		if t.Error == nil || t.EndedUnreachable() {
			continue
		}
		if byType[t.Error.Type] == nil {
			types = append(types, t.Error.Type)
		}
		byType[t.Error.Type] = append(byType[t.Error.Type], t)
	}
	rank := func(t result.ErrorType) int {
		if t == result.Cancelled {
			return 0
		}
		return len(byType[t])
	}
	slices.SortFunc(types, func(a, b result.ErrorType) int {
		return cmp.Or(cmp.Compare(rank(b), rank(a)), cmp.Compare(a, b))
	})
	for _, kind := range types {
		trials := byType[kind]
		lines := []string{s.styles.bad.Render("✗ "+untrusted.Line(string(kind))) + " (" + plural.Count(len(trials), "trial") + ")"}
		if kind != result.Cancelled {
			lines = append(lines, s.examples(trials)...)
		}
		s.add(lines)
	}
}

// examples returns the messages of trials with their directories, each message once.
func (s *summary) examples(trials []result.Trial) []string {
	var lines []string
	last := ""
	first := map[string]int{}
	for i, t := range trials {
		if _, known := first[t.Error.Message]; !known {
			first[t.Error.Message] = i
		}
	}
	trials = slices.Clone(trials)
	slices.SortStableFunc(trials, func(a, b result.Trial) int { return cmp.Compare(first[a.Error.Message], first[b.Error.Message]) })
	for _, t := range trials[:min(len(trials), maxExamples)] {
		if message := firstLine(t.Error.Message); message != last {
			lines = append(lines, s.quote(message)...)
			last = message
		}
		lines = append(lines, "  "+s.dir(t.Key))
	}
	return append(lines, more(len(trials)-maxExamples)...)
}

// notPassed lists completed trials with a reward below 1. It leaves out those of nop, which does nothing, and counts the tasks
// that give nop 1 instead.
func (s *summary) notPassed() []string {
	var trials []result.Trial
	var lines []string
	free := 0
	for _, t := range s.Trials {
		switch {
		case t.Agent == agent.Nop && t.Passed():
			free++
		case t.Agent != agent.Nop && t.Completed() && !t.Passed():
			trials = append(trials, t)
		}
	}
	if free > 0 {
		lines = s.wrap(s.styles.warn.Render(plural.Count(free, "trial")+" of nop passed") + ": a task that rewards doing nothing does not measure agents. rollout validate --run lists such tasks.")
	}
	if len(trials) == 0 {
		return lines
	}
	lines = append(lines, s.styles.warn.Render(plural.Count(len(trials), "trial")+" completed without passing"))
	for _, t := range trials[:min(len(trials), maxNotPassed)] {
		lines = append(lines, fmt.Sprintf("  %-5s  %s", number(*t.Reward), s.dir(t.Key)))
	}
	return append(lines, more(len(trials)-maxNotPassed)...)
}

func (s *summary) results() []string {
	if s.Missing {
		return []string{"Results so far: " + untrusted.ShellPath(s.Dir)}
	}
	return []string{"Results: " + untrusted.ShellPath(path.Join(s.Dir, result.ResultFile))}
}

// dir returns the trial's directory as the user would type it.
func (s *summary) dir(k result.Key) string { return untrusted.ShellPath(path.Join(s.Dir, k.Dir())) }

// wrap breaks text of ours into lines.
func (s *summary) wrap(text string) []string {
	return wrapped(text, s.width)
}

// noteLines returns the lines of a note. A command at its end has a line of its own, however long it is: what is broken cannot be
// pasted into a shell.
func (s *summary) noteLines(text string) []string {
	sentence, command, ok := strings.Cut(untrusted.Line(text), ": rollout ")
	if !ok {
		return s.wrap("Note: " + sentence)
	}
	return append(s.wrap("Note: "+sentence+":"), "  rollout "+command)
}

// quote breaks text from outside into lines that begin with a bar.
func (s *summary) quote(text string) []string {
	if text == "" {
		return nil
	}
	lines := wrapped(text, s.width-4)
	for i, line := range lines {
		lines[i] = s.styles.dim.Render("  │ ") + line
	}
	return lines
}

func more(n int) []string {
	if n <= 0 {
		return nil
	}
	return []string{fmt.Sprintf("  and %d more", n)}
}
