package ui

import (
	"fmt"
	"io"
	"strings"

	"github.com/org/rollout-action/internal/prove"
	"github.com/org/rollout-action/internal/untrusted"
)

// ProveReport prints a line for each task, with its findings below, and finally how many tasks have each verdict. color and width are
// as for Summary.
func ProveReport(w io.Writer, in prove.Report, color bool, width int) {
	if width <= 0 {
		width = 80
	}
	s := &summary{styles: newStyles(color), width: max(width, 20)}
	var b strings.Builder
	write := func(lines ...string) {
		for _, line := range lines {
			b.WriteString(noCommand(strings.TrimRight(line, " ")) + "\n")
		}
	}
	name, verdict := 0, 0
	for _, p := range in.Tasks {
		name = max(name, min(len([]rune(untrusted.Line(p.Task))), 40))
		verdict = max(verdict, len(p.Verdict.Words()))
	}
	for _, p := range in.Tasks {
		write(s.proven(p, name, verdict))
		for _, f := range p.Findings {
			write(s.finding(p, f)...)
		}
	}
	for _, note := range in.Notes {
		write(s.noteLines(note)...)
	}
	write(s.wrap(in.Headline())...)
	if in.Dir != "" {
		write("Evidence: " + untrusted.Line(in.Dir))
	}
	_, _ = io.WriteString(w, b.String())
}

// proven returns a task's own line.
func (s *summary) proven(p prove.TaskReport, name, verdict int) string {
	mark, render := "✗", s.styles.bad.Render
	switch {
	case p.Passed():
		mark, render = "✓", s.styles.good.Render
	case p.Verdict == prove.Unknown:
		mark, render = "?", s.styles.warn.Render
	}
	line := render(fmt.Sprintf("%s %-*s", mark, verdict, p.Verdict.Words())) + "  " + fmt.Sprintf("%-*s", name, untrusted.Line(p.Task))
	if runs := p.Runs.String(); runs != "" {
		line += "  " + s.styles.dim.Render(runs)
	}
	return line
}

// finding returns the lines of a finding: message, place and hint.
func (s *summary) finding(p prove.TaskReport, f prove.Finding) []string {
	mark, text := s.styles.warn.Render("!"), untrusted.Line(p.Place(f, p.Dir))+": "+untrusted.Line(f.Message)
	switch {
	case f.Ignored != "":
		mark, text = s.styles.dim.Render("-"), text+" (ignored: "+untrusted.Line(f.Ignored)+")"
	case f.Severity == prove.Error:
		mark = s.styles.bad.Render("✗")
	}
	lines := s.item(mark, text+" ["+f.Rule+"]")
	if f.Hint != "" && f.Ignored == "" {
		lines = append(lines, s.item(" ", untrusted.Line(f.Hint))...)
	}
	return lines
}
