package summary

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/output/termtext"
)

// usage returns a table with what each agent used of its model; nothing for a job without models.
func (s *summary) usage() []string {
	all := report.Usages(s.Job, nil)
	if len(all) == 0 {
		return nil
	}
	heads := append([]string{"agent", "model", "trials"}, report.UsageHead...)
	var rows [][]string
	for _, u := range all[:min(len(all), maxAgents)] {
		models := untrusted.Line(strings.Join(u.Models[:min(len(u.Models), 3)], ", "))
		rows = append(rows, append([]string{termtext.LineStart(untrusted.Line(u.Agent)), models, strconv.Itoa(u.Trials)}, u.Cells...))
	}
	var lines []string
	if fitted := fit(heads, rows, s.width); fitted != nil {
		lines = s.draw(heads, fitted, false)
	} else {
		lines = s.paragraphs(heads, rows)
	}
	lines = append(lines, more(len(all)-maxAgents)...)
	return append(lines, s.wrap(report.UsageNote(all))...)
}

// usageChanges returns a line for each agent with a model: how its usage changed against the
// baseline, and what cannot be compared.
func (s *summary) usageChanges(d result.Diff) []string {
	var lines []string
	all := report.Usages(d.Head, &d)
	for _, u := range all[:min(len(all), maxAgents)] {
		if u.Changes == nil {
			continue
		}
		text := u.Changed()
		if len(u.Notes) > 0 {
			text = strings.TrimPrefix(text+" (", " ") + untrusted.Line(strings.Join(u.Notes, "; ")) + ")"
		}
		lines = append(lines, s.item("·", fmt.Sprintf("%s: %s", termtext.CutMiddle(untrusted.Line(u.Agent), s.width/2), text))...)
	}
	if lines == nil {
		return nil
	}
	lines = append(lines, more(len(all)-maxAgents)...)
	return append(s.wrap("Usage of models against the baseline, means per trial on the tasks that both have:"), lines...)
}
