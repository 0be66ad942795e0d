package summary

import (
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/output/termtext"
)

// maxScores bounds the scores in a summary.
const maxScores = 40

// scores returns a table with the scores that judges gave each agent; nothing without judges.
func (s *summary) scores() []string {
	all := report.Scores(s.Job)
	if len(all) == 0 {
		return nil
	}
	heads := append([]string{"agent", "score"}, report.ScoreHead...)
	var rows [][]string
	for _, r := range all[:min(len(all), maxScores)] {
		rows = append(rows, append([]string{termtext.LineStart(untrusted.Line(r.Agent)), untrusted.Line(r.Name)}, r.Cells...))
	}
	var lines []string
	if fitted := fit(heads, rows, s.width); fitted != nil {
		lines = s.draw(heads, fitted, false)
	} else {
		lines = s.paragraphs(heads, rows)
	}
	lines = append(lines, more(len(all)-maxScores)...)
	lines = append(lines, s.wrap(report.ScoreNote)...)
	if cost := s.Job.Costs.Judges; cost.Amount() > 0 {
		lines = append(lines, s.wrap("Judges cost "+report.Cost(cost)+", which is part of the cost.")...)
	}
	return lines
}

// versus returns how agents compare in pairs, for a job that asks for it.
func (s *summary) versus() []string {
	var lines []string
	for _, pair := range s.Versus {
		lines = append(lines, s.wrap("Agents compared: "+pair.A+" against "+pair.B)...)
		for _, line := range pair.Lines() {
			lines = append(lines, s.item("·", line)...)
		}
		lines = append(lines, s.wrap(pair.Says)...)
	}
	return lines
}
