package ui

import (
	"fmt"
	"io"
	"strings"

	"github.com/org/rollout-action/internal/prove"
	"github.com/org/rollout-action/internal/untrusted"
)

// Proof prints a line for each task, below it what was found in it, and at the end how many tasks came to what. Rules for
// text and color are those of Summary.
func Proof(w io.Writer, in prove.Report, color bool, width int) {
	if width <= 0 {
		width = 80
	}
	s := &summary{look: newLook(color), width: max(width, 20)}
	var b strings.Builder
	write := func(lines ...string) {
		for _, line := range lines {
			b.WriteString(noCommand(strings.TrimRight(line, " ")) + "\n")
		}
	}
	name, verdict := 0, 0
	for _, p := range in.Proofs {
		name = max(name, min(len([]rune(untrusted.Line(p.Task))), 40))
		verdict = max(verdict, len(p.Verdict.Words()))
	}
	for _, p := range in.Proofs {
		write(s.proven(p, name, verdict))
		for _, f := range p.Findings {
			write(s.finding(p, f)...)
		}
	}
	for _, note := range in.Notes {
		write(s.wrap("Note: " + untrusted.Line(note))...)
	}
	write(s.wrap(in.Headline())...)
	if in.Dir != "" {
		write("Evidence: " + untrusted.Line(in.Dir))
	}
	_, _ = io.WriteString(w, b.String())
}

// proven is a task's own line.
func (s *summary) proven(p prove.Proof, name, verdict int) string {
	mark, render := "✗", s.look.bad.Render
	switch {
	case p.Passed():
		mark, render = "✓", s.look.good.Render
	case p.Verdict == prove.Unknown:
		mark, render = "?", s.look.warn.Render
	}
	line := render(fmt.Sprintf("%s %-*s", mark, verdict, p.Verdict.Words())) + "  " + fmt.Sprintf("%-*s", name, untrusted.Line(p.Task))
	if runs := p.Runs.String(); runs != "" {
		line += "  " + s.look.dim.Render(runs)
	}
	return line
}

// finding is what was found, with its place and the way out.
func (s *summary) finding(p prove.Proof, f prove.Finding) []string {
	mark, text := s.look.warn.Render("!"), untrusted.Line(p.Place(f, p.Dir))+": "+untrusted.Line(f.Message)
	switch {
	case f.Ignored != "":
		mark, text = s.look.dim.Render("-"), text+" (ignored: "+untrusted.Line(f.Ignored)+")"
	case f.Severity == prove.Error:
		mark = s.look.bad.Render("✗")
	}
	lines := s.item(mark, text+" ["+f.Rule+"]")
	if f.Hint != "" && f.Ignored == "" {
		lines = append(lines, s.item(" ", untrusted.Line(f.Hint))...)
	}
	return lines
}
