package ui

import (
	"fmt"
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// VerdictInput is the input of the gate's part of a summary. Texts may come from outside.
type VerdictInput struct {
	Verdict    gate.Verdict
	Diff       *result.Diff // nil: no baseline
	Baseline   string       // the baseline, or why there is none; "" if none was requested
	Incomplete []string
	Notes      []string
	// Missing: results are missing, so the job does not pass whatever the gate's verdict is.
	Missing bool
}

// maxChanged is how many changed tasks are listed; the others are counted.
const maxChanged = 20

// Verdict prints the gate's verdict, the changes since the baseline, and what is missing, for a
// terminal. It follows Summary; color and width are the same.
func Verdict(w io.Writer, in VerdictInput, color bool, width int) {
	if width <= 0 {
		width = 80
	}
	s := &summary{styles: newStyles(color), width: max(width, 20)}
	for _, sentence := range in.Incomplete {
		s.add(s.wrap(s.styles.bad.Render("✗ incomplete") + ": " + untrusted.Line(sentence)))
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
	}
	s.add(s.gate(in.Verdict, in.Missing))
	for _, note := range in.Notes {
		s.add(s.noteLines(note))
	}
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
	var counts, lines []string
	left := 0
	for _, kind := range result.Changes {
		if n := d.Counts[kind]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, kind))
		}
		for _, t := range d.Tasks {
			switch {
			case t.Change != kind || kind == result.Same:
			case len(lines) == maxChanged:
				left++
			default:
				lines = append(lines, s.changed(t))
			}
		}
	}
	if len(counts) == 0 {
		return nil
	}
	if left > 0 {
		lines = append(lines, fmt.Sprintf("  … and %d more", left))
	}
	return append(s.wrap("Tasks against the baseline: "+strings.Join(counts, ", ")), lines...)
}

func (s *summary) changed(t result.TaskDiff) string {
	style := s.styles.dim
	switch t.Change {
	case result.Broken, result.Errored, result.Worse:
		style = s.styles.bad
	case result.Fixed, result.Better:
		style = s.styles.good
	}
	line := fmt.Sprintf("  %s  %s", style.Render(fmt.Sprintf("%-8s", t.Change)), untrusted.Line(t.Agent+"/"+t.Dataset+"/"+t.Task))
	if t.Base != nil && t.Head != nil {
		line += fmt.Sprintf("  %s → %s", level(*t.Base), level(*t.Head))
	}
	if text := t.ConfirmedText(); text != "" {
		line += "  (" + text + ")"
	}
	return line
}

// level summarizes the rewards of attempts in a few characters.
func level(a result.Attempts) string {
	if len(a.Rewards) == 0 {
		return "no reward"
	}
	return number(a.Mean())
}

// gate returns the verdict and its checks.
func (s *summary) gate(v gate.Verdict, missing bool) []string {
	marks := map[gate.Outcome]string{
		gate.Pass: s.styles.good.Render("✓"), gate.Fail: s.styles.bad.Render("✗"), gate.Inconclusive: s.styles.warn.Render("?"),
	}
	styles := map[gate.Outcome]func(...string) string{
		gate.Pass: s.styles.good.Render, gate.Fail: s.styles.bad.Render, gate.Inconclusive: s.styles.warn.Render,
	}
	render, ok := styles[v.Outcome]
	if !ok {
		return nil
	}
	text := "Gate: " + render(string(v.Outcome))
	if v.Uncompared && v.Outcome == gate.Pass {
		text = "Gate: " + s.styles.warn.Render("nothing to compare with yet")
	}
	text += ". " + untrusted.Line(v.Reason)
	if missing && v.Outcome != gate.Fail { // "pass" would contradict the exit code
		text = "Gate: " + s.styles.bad.Render("the job does not pass") + ", because results are missing. About those that are there: " + untrusted.Line(v.Reason)
	}
	lines := s.wrap(text)
	for _, c := range v.Checks {
		scope := ""
		if c.Agent+c.Dataset != "" {
			scope = " (" + untrusted.Line(strings.Trim(c.Agent+"/"+c.Dataset, "/")) + ")"
		}
		mark := marks[c.Outcome]
		if c.Skipped {
			mark = s.styles.dim.Render("–")
		}
		lines = append(lines, s.item(mark, untrusted.Line(c.Name)+scope+": "+untrusted.Line(c.Message))...)
		if c.Hint != "" {
			lines = append(lines, s.item(" ", untrusted.Line(c.Hint))...)
		}
	}
	for _, q := range v.Quarantined {
		lines = append(lines, s.item("-", fmt.Sprintf("not gated until %s: %s (%s)", untrusted.Line(q.Until), untrusted.Line(q.Dataset+"/"+q.Task), untrusted.Line(q.Reason)))...)
	}
	for _, note := range v.Notes {
		lines = append(lines, s.item("·", untrusted.Line(note))...)
	}
	return lines
}

// item wraps text next to a mark.
func (s *summary) item(mark, text string) []string {
	lines := wrapped(text, max(s.width-4, 20))
	for i, line := range lines {
		lines[i] = "    " + line
	}
	lines[0] = "  " + mark + lines[0][3:]
	return lines
}
