package summary

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/output/termtext"
)

// VerdictInput is the input of the gate's part of a summary. Texts may come from outside.
type VerdictInput struct {
	Verdict gate.Verdict
	Diff    *result.Diff // nil: no baseline
	// Stored is the comparison of a verdict that was stored, if Diff is nil.
	Stored     *result.Comparison
	Baseline   string // the baseline, or why there is none; "" if none was requested
	Incomplete []string
	Notes      []string
	// Missing: results are missing, so the job does not pass whatever the gate's verdict is.
	Missing bool
	// Cancelled: the job or the command was cancelled. The verdict is about partial data and is
	// not shown.
	Cancelled bool
	// Whole: lists are not bounded. All says how to see the whole lists; "" says nothing.
	Whole bool
	All   string
}

// maxVerdictRows is how many changed tasks, checks, tasks in quarantine and notes are listed; the
// others are counted.
const maxVerdictRows = 20

// WriteVerdict prints the gate's verdict, the changes since the baseline, and the missing parts. It
// follows Write; color and width are the same.
func WriteVerdict(w io.Writer, in VerdictInput, color bool, width int) {
	if width <= 0 {
		width = 80
	}
	s := &summary{styles: termtext.NewStyles(color), width: max(width, 20), maxRows: maxVerdictRows, all: in.All, byChance: in.Verdict.FixedByChance}
	if in.Whole {
		s.maxRows = math.MaxInt
	}
	for _, sentence := range in.Incomplete {
		s.add(s.wrap(s.styles.Bad.Render("✗ incomplete") + ": " + untrusted.Line(sentence)))
	}
	if in.Baseline != "" {
		word := "Baseline: "
		if in.Diff == nil {
			word = "No baseline: "
		}
		s.add(s.wrap(word + untrusted.Line(in.Baseline)))
	}
	if in.Diff != nil {
		s.add(s.changes(*in.Diff))
		s.add(s.usageChanges(*in.Diff))
	} else if in.Stored != nil && len(in.Stored.Tasks) > 0 {
		s.add(s.storedChanges(*in.Stored))
	}
	if in.Cancelled && in.Verdict.Outcome != "" {
		s.add(s.wrap("Gate: " + s.styles.Warn.Render("no verdict") + ", because it was cancelled before all results were there."))
	} else {
		s.add(s.gate(in.Verdict, in.Missing))
	}
	for _, note := range in.Notes[:min(len(in.Notes), s.maxRows)] {
		s.add(s.noteLines(note))
	}
	s.add(s.more(len(in.Notes) - s.maxRows))
	var b strings.Builder
	for _, lines := range s.sections {
		b.WriteByte('\n')
		for _, line := range lines {
			b.WriteString(noCommand(strings.TrimRight(line, " ")) + "\n")
		}
	}
	_, _ = io.WriteString(w, b.String())
}

// noCommand prevents that a line is taken for a workflow command: wrapping may put any foreign word
// first.
func noCommand(line string) string {
	if strings.HasPrefix(strings.TrimSpace(ansi.Strip(line)), "::") {
		return "│ " + line
	}
	return line
}

// changes lists the tasks that differ from the baseline, most important first.
func (s *summary) changes(d result.Diff) []string {
	var changed []changedTask
	for _, kind := range result.Changes {
		for _, t := range d.Tasks {
			if t.Change != kind || kind == result.Same {
				continue
			}
			c := changedTask{change: kind, name: t.Agent + "/" + t.Dataset + "/" + t.Task, confirmed: t.ConfirmedText()}
			if t.Base != nil && t.Head != nil {
				c.levels = level(*t.Base) + " → " + level(*t.Head)
			}
			changed = append(changed, c)
		}
	}
	return s.changeLines("Tasks against the baseline: ", d.Counts, changed)
}

// storedChanges lists the tasks that differ from a baseline that is not at hand.
func (s *summary) storedChanges(c result.Comparison) []string {
	var changed []changedTask
	for _, t := range c.Tasks {
		if t.Change == result.Same {
			continue
		}
		one := changedTask{change: t.Change, name: t.Agent + "/" + t.Dataset + "/" + t.Task, confirmed: t.Confirmed}
		if t.Base != nil && t.Head != nil {
			one.levels = storedLevel(*t.Base) + " → " + storedLevel(*t.Head)
		}
		changed = append(changed, one)
	}
	lines := s.changeLines("Tasks against the baseline, from the verdict: ", c.Changes, changed)
	if c.LeftOut > 0 {
		lines = append(lines, fmt.Sprintf("  the verdict has no rows of %d more tasks", c.LeftOut))
	}
	return lines
}

// storedLevel is level of a stored side.
func storedLevel(side result.ComparedSide) string {
	if side.MeanReward == nil {
		return "no reward"
	}
	return fmt.Sprintf("%s (%d of %d passed)", termtext.Number(*side.MeanReward), side.Passed, side.Attempts)
}

// changedTask is a line of the changes. Texts are untrusted.
type changedTask struct {
	change                  result.Change
	name, levels, confirmed string
}

// changeLines returns the numbers of changes, and a line for each task.
func (s *summary) changeLines(lead string, all map[result.Change]int, changed []changedTask) []string {
	var counts []string
	for _, kind := range result.Changes {
		if n := all[kind]; n > 0 {
			text := fmt.Sprintf("%d %s", n, kind)
			if kind == result.Fixed && s.byChance {
				text += report.AsChanceDoes
			}
			counts = append(counts, text)
		}
	}
	if len(counts) == 0 {
		return nil
	}
	lines := s.wrap(lead + strings.Join(counts, ", "))
	for _, t := range changed[:min(len(changed), s.maxRows)] {
		lines = append(lines, s.changed(t))
	}
	return append(lines, s.more(len(changed)-s.maxRows)...)
}

// more says how many rows are left out.
func (s *summary) more(n int) []string {
	switch {
	case n <= 0:
		return nil
	case s.all == "":
		return []string{fmt.Sprintf("  … and %d more", n)}
	}
	return []string{fmt.Sprintf("  … and %d more; %s", n, s.all)}
}

func (s *summary) changed(t changedTask) string {
	style := s.styles.Dim
	switch t.change {
	case result.Broken, result.Errored, result.Worse:
		style = s.styles.Bad
	case result.Fixed, result.Better:
		if t.change != result.Fixed || !s.byChance {
			style = s.styles.Good
		}
	}
	line := fmt.Sprintf("  %s  %s", style.Render(fmt.Sprintf("%-8s", untrusted.Line(string(t.change)))), untrusted.Line(t.name))
	if t.levels != "" {
		line += "  " + t.levels
	}
	if t.confirmed != "" {
		line += "  (" + untrusted.Line(t.confirmed) + ")"
	}
	return line
}

// level summarizes the rewards of attempts in a few characters.
func level(a result.Attempts) string {
	if len(a.Rewards) == 0 {
		return "no reward"
	}
	return termtext.Number(a.Mean())
}

// gate returns the verdict and its checks.
func (s *summary) gate(v gate.Verdict, missing bool) []string {
	marks := map[gate.Outcome]string{
		gate.Pass: s.styles.Good.Render("✓"), gate.Fail: s.styles.Bad.Render("✗"), gate.Inconclusive: s.styles.Warn.Render("?"),
	}
	styles := map[gate.Outcome]func(...string) string{
		gate.Pass: s.styles.Good.Render, gate.Fail: s.styles.Bad.Render, gate.Inconclusive: s.styles.Warn.Render,
	}
	render, ok := styles[v.Outcome]
	if !ok {
		return nil
	}
	text := "Gate: " + render(string(v.Outcome))
	if v.Uncompared && v.Outcome == gate.Pass {
		text = "Gate: " + s.styles.Warn.Render("nothing to compare with yet")
	}
	text += ". " + untrusted.Line(v.Reason)
	if missing && v.Outcome != gate.Fail { // "pass" would contradict the exit code
		text = "Gate: " + s.styles.Bad.Render("the job does not pass") + ", because results are missing. About those that are there: " + untrusted.Line(v.Reason)
	}
	lines := s.wrap(text)
	checks := v.Checks
	if len(checks) > s.maxRows { // those that decide are shown
		order := map[gate.Outcome]int{gate.Fail: 0, gate.Inconclusive: 1, gate.Pass: 2}
		checks = slices.Clone(checks)
		slices.SortStableFunc(checks, func(a, b gate.Check) int { return cmp.Compare(order[a.Outcome], order[b.Outcome]) })
	}
	for _, c := range checks[:min(len(checks), s.maxRows)] {
		scope := ""
		if c.Agent+c.Dataset != "" {
			scope = " (" + untrusted.Line(strings.Trim(c.Agent+"/"+c.Dataset, "/")) + ")"
		}
		mark := marks[c.Outcome]
		if c.Skipped {
			mark = s.styles.Dim.Render("–")
		}
		lines = append(lines, s.item(mark, untrusted.Line(c.Name)+scope+": "+untrusted.Line(c.Message))...)
		if c.Hint != "" {
			lines = append(lines, s.item(" ", untrusted.Line(c.Hint))...)
		}
	}
	lines = append(lines, s.more(len(checks)-s.maxRows)...)
	if len(v.WaysOut) > 0 {
		lines = append(lines, s.wrap("  "+report.WaysOutLead(v.WaysOut))...)
		for _, way := range v.WaysOut[:min(len(v.WaysOut), s.maxRows)] {
			lines = append(lines, s.item("→", untrusted.Line(way.Text))...)
		}
	}
	for _, q := range v.Quarantined[:min(len(v.Quarantined), s.maxRows)] {
		lines = append(lines, s.item("-", fmt.Sprintf("not gated until %s: %s (%s)", untrusted.Line(q.Until), untrusted.Line(q.Dataset+"/"+q.Task), untrusted.Line(q.Reason)))...)
	}
	lines = append(lines, s.more(len(v.Quarantined)-s.maxRows)...)
	for _, note := range v.Notes[:min(len(v.Notes), s.maxRows)] {
		lines = append(lines, s.item("·", untrusted.Line(note))...)
	}
	return append(lines, s.more(len(v.Notes)-s.maxRows)...)
}

// item wraps text next to a mark.
func (s *summary) item(mark, text string) []string {
	lines := termtext.Wrapped(text, max(s.width-4, 20))
	for i, line := range lines {
		lines[i] = "    " + line
	}
	lines[0] = "  " + mark + lines[0][3:]
	return lines
}
