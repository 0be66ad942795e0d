package summary

import (
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/output/termtext"
)

// Input is the input of the final summary.
type Input struct {
	Job    result.Job
	Groups []result.Group
	Trials []result.Packed
	Tasks  []report.AgentTasks // a line for each
	Versus []report.ComparedPair
	Dir    string // the job's directory as the user would type it
	Files  fs.FS  // the job's directory, for the logs that explain failures; nil: none
	// Missing: planned trials have no result, although the job was not cancelled.
	Missing bool
	// Running: with Missing, a process runs the job, so there is nothing to resume.
	Running bool
	// Resume is the command that resumes the job; "" if none does.
	Resume string
	// Partial: planned trials have no result, and the text after the summary explains why.
	Partial bool
}

// Limits of long lists; omitted entries are counted.
const (
	maxExamples  = 5  // trials per error type, kept environments, cut logs
	maxNotPassed = 10 // trials with a reward below 1
	maxDoubts    = 3  // judges that gave such a trial less than 1
	maxAgents    = 10 // lines with the tasks that an agent passed
	maxKinds     = 8  // types of errors
	maxAlike     = 3  // trials of each reason, if there are several reasons
	maxLogs      = 6  // logs that explain a failure
	maxKindLogs  = 3  // of one kind of failure
	logLines     = 8  // of such a log
)

// summary collects the sections of a summary. Its input may come from other people's artifacts, so
// all text is sanitized, and no line begins with it (see untrusted.Line).
type summary struct {
	Input
	trials    []result.Packed // by key
	styles    termtext.Styles
	width     int
	sections  [][]string
	explained int    // logs shown
	maxRows   int    // of a list of a verdict, at most
	all       string // how to see the others
	byChance  bool   // fixed tasks are no more than chance explains
}

// Write prints the outcome of a job from the files on disk: the job as a whole with a line per
// agent, a table per agent and dataset, notes, and at the end the failures by error type and the
// trials that did not pass, with the ends of the logs that explain them. Without color it writes
// plain text. Lines are at most width cells wide (0: 80), except those that users copy (paths,
// commands) and notes.
func Write(w io.Writer, in Input, color bool, width int) {
	if width <= 0 {
		width = 80
	}
	s := &summary{Input: in, trials: byKey(in.Trials), styles: termtext.NewStyles(color), width: max(width, 20)}
	s.add(append(s.headline(), s.tasks()...))
	s.add(s.table())
	s.add(s.usage())
	s.add(s.scores())
	s.add(s.versus())
	s.add(s.attempts())
	s.add(s.planned())
	s.add(s.notes())
	s.add(s.kept())
	s.add(s.outcomes())
	reasons := report.Reasons(report.Input{Files: in.Files}, s.unexpected(), logLines)
	s.failures(reasons)
	s.add(s.notPassed(reasons))
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

// byKey returns trials in the order of their keys.
func byKey(trials []result.Packed) []result.Packed {
	sorted := slices.Clone(trials)
	slices.SortFunc(sorted, func(a, b result.Packed) int { return a.Key().Compare(b.Key()) })
	return sorted
}

func (s *summary) add(lines []string) {
	if len(lines) > 0 {
		s.sections = append(s.sections, lines)
	}
}

// headline describes the outcome of the job as a whole.
func (s *summary) headline() []string {
	j := s.Job
	title := "Job " + s.styles.Bold.Render(untrusted.Line(j.JobName))
	if j.Shard != nil {
		title += ", shard " + j.Shard.String()
	}
	trials := plural.Count(j.TotalTrials, "trial")
	switch {
	case s.Partial:
		return s.wrap(title + s.styles.Warn.Render(fmt.Sprintf(" is incomplete: no result for %d of %s", j.SkippedTrials, trials)) + ".")
	case s.Missing:
		what := fmt.Sprintf(" is incomplete: no result for %d of %s", j.SkippedTrials, trials)
		text := title + s.styles.Warn.Render(what) + ". "
		if s.Running {
			return s.wrap(text + "It is still running.")
		}
		text += "It ended without writing its result: it was killed, or a disk was full."
		if s.Resume == "" {
			return s.wrap(text)
		}
		return append(s.wrap(text+" Resume it with:"), "  "+s.Resume) // commands are not wrapped
	case j.Cancelled && j.Errors[result.Cancelled] == 0: // an engine died, a disk was full, or no trial ran just then
		return s.wrap(title + s.styles.Warn.Render(fmt.Sprintf(" is incomplete: of %s %d never started", trials, j.SkippedTrials)) + ".")
	case j.Cancelled:
		stopped := j.Errors[result.Cancelled]
		what := fmt.Sprintf(" was cancelled: of %s ", trials)
		if j.SkippedTrials > 0 {
			what += fmt.Sprintf("%d never started, ", j.SkippedTrials)
		}
		what += fmt.Sprintf("%d %s stopped", stopped, map[bool]string{true: "was", false: "were"}[stopped == 1])
		return s.wrap(title + s.styles.Warn.Render(what) + ".")
	}
	title += ": " + trials + " in " + termtext.Took(j.TotalDurationSec)
	if j.TotalTrials > 0 && j.PassRateAll == 1 {
		title += ", " + s.styles.Good.Render("all passed")
	}
	return s.wrap(title)
}

// planned explains the rates over all planned trials if they differ from those in the table, for
// each agent.
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
		return fmt.Sprintf("the pass rate is %s and the mean %s", s.styles.Bold.Render(termtext.Percent(a.PassRateAll)), s.styles.Bold.Render(termtext.Number(a.MeanRewardAll)))
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

// tasks returns how many tasks each agent passed.
func (s *summary) tasks() []string {
	var lines []string
	for _, a := range s.Tasks[:min(len(s.Tasks), maxAgents)] {
		if len(s.Tasks) == 1 {
			return []string{a.String()}
		}
		text := termtext.CutMiddle(untrusted.Line(a.Agent), s.width/2) + ": " + a.String()
		if a.Agent == agent.Nop && a.Passed == 0 && a.NotRun+a.NoResult == 0 {
			text += ", as it should be"
		}
		lines = append(lines, s.item("·", text)...)
	}
	return append(lines, more(len(s.Tasks)-maxAgents)...)
}

// unexpected returns the trials whose failures need an explanation: not those that ended with their
// provider, which have one sentence for all, and not those in which nop got less than 1, as it
// should.
func (s *summary) unexpected() (trials []result.Packed) {
	for _, t := range s.trials {
		if t.Errored() && !t.Unpack().EndedUnreachable() || !t.Errored() && t.Key().Agent != agent.Nop {
			trials = append(trials, t)
		}
	}
	return trials
}

// failures adds a section per error type: most frequent first, cancelled trials last. For trials
// that ended with their provider it adds one sentence: they did not cause it, and their messages
// are all the same.
func (s *summary) failures(reasons []report.Reason) {
	if text := report.UnreachableText(s.Trials); text != "" {
		s.add(s.wrap(s.styles.Bad.Render("✗") + " " + text + "."))
	}
	type group struct {
		kind    string
		reasons []report.Reason
		trials  int
	}
	var groups []group
	for _, r := range reasons { // those of a kind are together
		if r.Kind == report.BelowOne {
			continue
		}
		if len(groups) == 0 || groups[len(groups)-1].kind != r.Kind {
			groups = append(groups, group{kind: r.Kind})
		}
		g := &groups[len(groups)-1]
		g.reasons, g.trials = append(g.reasons, r), g.trials+len(r.Trials)
	}
	rank := func(g group) int {
		if g.kind == string(result.Cancelled) {
			return 0
		}
		return g.trials
	}
	slices.SortFunc(groups, func(a, b group) int {
		return cmp.Or(cmp.Compare(rank(b), rank(a)), cmp.Compare(a.kind, b.kind))
	})
	for _, g := range groups[:min(len(groups), maxKinds)] {
		lines := []string{s.styles.Bad.Render("✗ "+g.kind) + " (" + plural.Count(g.trials, "trial") + ")"}
		if g.kind != string(result.Cancelled) {
			lines = append(lines, s.why(g.reasons, maxExamples, func(t *result.Trial) []string { return append([]string{"  " + s.dir(t.Key)}, s.steps(t)...) })...)
		}
		s.add(lines)
	}
	if left := groups[min(len(groups), maxKinds):]; len(left) > 0 {
		s.add([]string{"and " + plural.Count(len(left), "other type") + " of errors: " + s.report()})
	}
}

// why explains failures of one kind: for each reason the message, the trials, at most room of them,
// and the end of the log.
func (s *summary) why(reasons []report.Reason, room int, entry func(*result.Trial) []string) []string {
	var lines []string
	last := ""
	logs := 0
	for i, r := range reasons {
		if room == 0 {
			rest := 0
			for _, r := range reasons[i:] {
				rest += len(r.Trials)
			}
			return append(lines, fmt.Sprintf("  and %s in %s: %s", plural.Count(len(reasons)-i, "other failure"), plural.Count(rest, "trial"), s.report()))
		}
		if t := r.Trials[0].Unpack(); t.Error != nil {
			if message := termtext.FirstLine(t.Error.Message); message != last {
				lines = append(lines, s.quote(message)...)
				last = message
			}
		}
		shown := r.Trials[:min(len(r.Trials), room)]
		if len(reasons) > 1 {
			shown = shown[:min(len(shown), maxAlike)]
		}
		room -= len(shown)
		for _, t := range shown {
			lines = append(lines, entry(t.Unpack())...)
		}
		switch rest := len(r.Trials) - len(shown); {
		case rest == 0:
		case r.Unread:
			lines = append(lines, fmt.Sprintf("  and %d more, whose logs were not compared", rest))
		case len(reasons) > 1:
			lines = append(lines, fmt.Sprintf("  and %d more alike", rest))
		default:
			lines = append(lines, more(rest)...)
		}
		if r.Log.Empty() || logs == maxKindLogs || s.explained == maxLogs {
			continue
		}
		logs++
		s.explained++
		file := r.File
		if len(r.Trials) > 1 {
			file += " of the first"
		}
		lines = append(lines, s.wrapIndented(report.Caption(r.Log, file))...)
		for _, line := range r.Log.Lines() {
			lines = append(lines, s.styles.Dim.Render("  │ ")+termtext.CutMiddle(line, s.width-4))
		}
	}
	return lines
}

// report returns the command that explains all failures.
func (s *summary) report() string {
	return "rollout report " + untrusted.ShellPath(s.Dir) + " --format markdown"
}

// wrapIndented breaks text of ours into lines that begin with two spaces.
func (s *summary) wrapIndented(text string) []string {
	lines := termtext.Wrapped(text, s.width-2)
	for i := range lines {
		lines[i] = "  " + lines[i]
	}
	return lines
}

// notPassed lists completed trials with a reward below 1. It leaves out those of nop, which does
// nothing, and counts the tasks that give nop 1 instead.
func (s *summary) notPassed(reasons []report.Reason) []string {
	reasons = slices.DeleteFunc(slices.Clone(reasons), func(r report.Reason) bool { return r.Kind != report.BelowOne })
	var lines []string
	free := 0
	for _, t := range s.trials {
		if t.Passed() && t.Key().Agent == agent.Nop {
			free++
		}
	}
	if free > 0 {
		lines = s.wrap(s.styles.Warn.Render(plural.Count(free, "trial")+" of nop passed") + ": a task that rewards doing nothing does not measure agents. rollout validate --run lists such tasks.")
	}
	if len(reasons) == 0 {
		return lines
	}
	total := 0
	for _, r := range reasons {
		total += len(r.Trials)
	}
	lines = append(lines, s.styles.Warn.Render(plural.Count(total, "trial")+" completed without passing"))
	return append(lines, s.why(reasons, maxNotPassed, func(t *result.Trial) []string {
		entry := append([]string{fmt.Sprintf("  %-5s  %s", termtext.Number(*t.Reward), s.dir(t.Key))}, s.steps(t)...)
		doubts := 0
		for _, run := range report.Doubts(*t) {
			if doubts++; doubts <= maxDoubts {
				entry = append(entry, termtext.CutEnd("         "+untrusted.Line(fmt.Sprintf("judge %s, score %s: %s", run.Name, termtext.Number(*run.Score), run.Reason)), s.width))
			}
		}
		return entry
	})...)
}

// steps returns a line with the steps of a trial, if its task has steps.
func (s *summary) steps(t *result.Trial) []string {
	if len(t.Steps) == 0 {
		return nil
	}
	return []string{termtext.CutEnd("         steps: "+untrusted.Line(report.Steps(*t)), s.width)}
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
	return termtext.Wrapped(text, s.width)
}

// noteLines returns the lines of a note. A command at its end gets a separate, unwrapped line, so
// that it can be pasted into a shell.
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
	lines := termtext.Wrapped(text, s.width-4)
	for i, line := range lines {
		lines[i] = s.styles.Dim.Render("  │ ") + line
	}
	return lines
}

func more(n int) []string {
	if n <= 0 {
		return nil
	}
	return []string{fmt.Sprintf("  and %d more", n)}
}
