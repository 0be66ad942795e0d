package sections

import (
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// Scores returns the scores that judges gave each agent; nothing without judges.
func (p *Page) Scores() string {
	all := report.Scores(p.in.Job)
	if len(all) == 0 {
		return ""
	}
	var rows [][]string
	for _, r := range all[:min(len(all), maxGroups)] {
		rows = append(rows, append([]string{name(r.Agent), name(r.Name)}, r.Cells...))
	}
	note := ""
	if more := len(all) - maxGroups; more > 0 {
		note = "… and " + report.Count(more) + " more scores\n"
	}
	return Join("### Scores", table([]string{"Agent", "Score", ">Mean", ">Trials", ">Without"}, rows), report.ScoreNote+"\n", note, p.scoreChanges())
}

// scoreChanges returns how the scores differ from the baseline.
func (p *Page) scoreChanges() string {
	all, notes := report.ScoreChanges(p.in.Diff)
	var rows [][]string
	for _, r := range all[:min(len(all), maxGroups)] {
		rows = append(rows, append([]string{name(r.Agent), name(r.Name)}, r.Cells...))
	}
	text := ""
	if len(rows) > 0 {
		text = Join("Against the baseline, on the tasks that have the score on both sides:\n", table([]string{"Agent", "Score", ">Baseline", ">Now", ">Change", ">Tasks"}, rows))
	}
	for _, n := range notes {
		text = Join(text, untrusted.Markdown(n)+".\n")
	}
	return text
}
