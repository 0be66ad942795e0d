package sections

import "github.com/org/rollout-action/internal/report"

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
	return Join("### Scores", table([]string{"Agent", "Score", ">Mean", ">Trials", ">Without"}, rows), report.ScoreNote+"\n", note)
}
