package summary

import (
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/output/termtext"
	"github.com/org/rollout-action/internal/run/prove"
)

// WriteProof prints a line for each task, with its findings below, and finally how many tasks have
// each verdict. color and width are as for Write.
func WriteProof(w io.Writer, in prove.Report, color bool, width int) {
	if width <= 0 {
		width = 80
	}
	s := &summary{Input: Input{Dir: in.Dir, Files: in.Files}, styles: termtext.NewStyles(color), width: max(width, 20)}
	var b strings.Builder
	write := func(lines ...string) {
		for _, line := range lines {
			b.WriteString(noCommand(strings.TrimRight(line, " ")) + "\n")
		}
	}
	name, verdict := 0, 0
	for _, p := range in.Tasks {
		if p.Verdict == prove.NotRun && len(p.Findings) == 0 {
			continue // the last line counts them
		}
		name = max(name, min(len([]rune(untrusted.Line(p.Task))), 40))
		verdict = max(verdict, len(p.Verdict.Words()))
	}
	for _, p := range in.Tasks {
		if p.Verdict == prove.NotRun && len(p.Findings) == 0 {
			continue
		}
		write(s.proven(p, name, verdict))
		shown := ""
		for _, f := range p.Findings {
			write(s.finding(p, f)...)
			if f.Trial != "" && f.Ignored == "" && f.Trial != shown {
				write(s.evidence(p, f)...)
				shown = f.Trial
			}
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
	mark, render := "✗", s.styles.Bad.Render
	switch {
	case p.Passed():
		mark, render = "✓", s.styles.Good.Render
	case p.Verdict.NothingKnown():
		mark, render = "?", s.styles.Warn.Render
	}
	line := render(fmt.Sprintf("%s %-*s", mark, verdict, p.Verdict.Words())) + "  " + fmt.Sprintf("%-*s", name, untrusted.Line(p.Task))
	if runs := p.Runs.String(); runs != "" {
		line += "  " + s.styles.Dim.Render(runs)
	}
	return line
}

// finding returns the lines of a finding: message, place and hint.
func (s *summary) finding(p prove.TaskReport, f prove.Finding) []string {
	mark, text := s.styles.Warn.Render("!"), untrusted.Line(p.Place(f, p.Dir))+": "+untrusted.Line(f.Message)
	switch {
	case f.Ignored != "":
		mark, text = s.styles.Dim.Render("-"), text+" (ignored: "+untrusted.Line(f.Ignored)+")"
	case f.Severity == prove.Error:
		mark = s.styles.Bad.Render("✗")
	}
	lines := s.item(mark, text+" ["+f.Rule+"]")
	if f.Hint != "" && f.Ignored == "" {
		lines = append(lines, s.item(" ", untrusted.Line(f.Hint))...)
	}
	return lines
}

// evidence returns the directory of the run that shows a finding, and the end of the log that
// explains it, as in the summary of a job.
func (s *summary) evidence(p prove.TaskReport, f prove.Finding) []string {
	lines := []string{"    " + untrusted.ShellPath(path.Join(s.Dir, f.Trial))}
	for _, t := range slices.Concat(p.Runs.Oracle, p.Runs.Nop, p.Runs.Offline) {
		if t.Dir() != f.Trial || s.explained == maxProofLogs || s.Files == nil {
			continue
		}
		s.explained++
		file, log := report.Explain(report.Input{Files: s.Files, Dir: s.Dir}, t)
		file = strings.TrimPrefix(file, f.Trial+"/")
		if log.Empty() || file == result.ErrorFile { // which has the message of the finding
			break
		}
		for _, line := range s.wrapIndented(report.Caption(log, file)) {
			lines = append(lines, "  "+line)
		}
		for _, line := range log.Lines() {
			lines = append(lines, s.styles.Dim.Render("    │ ")+termtext.CutMiddle(line, s.width-6))
		}
		break
	}
	return lines
}

// maxProofLogs bounds how many logs a proof shows: one cause may break each task of a dataset.
const maxProofLogs = 10
