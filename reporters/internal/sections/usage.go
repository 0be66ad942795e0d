package sections

import (
	"strings"

	"github.com/org/rollout-action/internal/core/report"
)

// Usage returns what each agent used of its model, with the changes against the baseline; nothing
// for a job without models.
func (p *Page) Usage() string {
	all := report.Usages(p.in.Job, p.in.Diff)
	if len(all) == 0 {
		return ""
	}
	var rows [][]string
	var notes []string
	compared := false
	for i, u := range all {
		if i == maxGroups {
			notes = append(notes, "… and "+report.Count(len(all)-i)+" more agents")
			break
		}
		cells := []string{name(u.Agent), models(u.Models), report.Count(u.Trials)}
		for i, cell := range u.Cells {
			if i < len(u.Changes) && u.Changes[i] != "" {
				cell += " (" + u.Changes[i] + ")"
				compared = true
			}
			cells = append(cells, cell)
		}
		rows = append(rows, cells)
		if len(u.Notes) > 0 {
			notes = append(notes, name(u.Agent)+": "+words(strings.Join(u.Notes, "; ")))
		}
	}
	says := report.UsageNote(all)
	if compared {
		says += " Changes are against the baseline, on the tasks that both have."
	}
	lines := ""
	for _, note := range notes {
		lines += "- " + note + ".\n"
	}
	return Join("### Models", table([]string{"Agent", "Model", ">Trials", ">Turns", ">Input", ">Output", ">Cost", ">Model time"}, rows), says+"\n", lines)
}

// models lists the names of models, at most three of them.
func models(names []string) string {
	var shown []string
	for i, n := range names {
		if i == 3 {
			shown = append(shown, "… "+report.Count(len(names)-i)+" more")
			break
		}
		shown = append(shown, name(n))
	}
	return strings.Join(shown, ", ")
}
