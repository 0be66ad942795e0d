package sections

import (
	"maps"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
)

// maxGroups bounds how many agents and datasets are listed.
const maxGroups = 100

// Groups returns the results of each agent on each dataset, and how they differ from the baseline
// on the comparable tasks.
func (p *Page) Groups() string {
	type key struct{ agent, dataset string }
	diffs, times := map[key]result.GroupDiff{}, map[key]float64{}
	if p.in.Diff != nil {
		for _, g := range p.in.Diff.Groups {
			diffs[key{g.Agent, g.Dataset}] = g
		}
	}
	for _, c := range p.cases {
		times[key{c.Agent, c.Dataset}] += c.Seconds()
	}
	var rows [][]string
	for _, g := range p.in.Groups {
		k := key{g.Agent, g.Dataset}
		rate, mean, cost := report.Percent(g.PassRate), report.Number(g.MeanReward), report.Cost(g.TotalCost)
		if g.CompletedTrials == 0 {
			rate, mean = "–", "–"
		}
		if d := diffs[k]; d.Tasks > 0 {
			rate += " (" + report.Signed(d.Head.PassRate-d.Base.PassRate, report.Points) + ")"
			mean += " (" + report.Signed(d.Head.MeanReward-d.Base.MeanReward, report.Number) + ")"
			if change := report.CostChange(d.Head.Cost, d.Base.Cost); change != "–" && d.CostsComparable() {
				cost += " (" + change + " a trial)"
			}
		}
		rows = append(rows, []string{
			name(g.Agent), name(g.Dataset), bar(g.PassRate), rate, mean, report.Count(g.TotalTrials), report.Count(g.FailedTrials), report.Count(g.SkippedTrials), cost, report.Duration(times[k]),
		})
	}
	if len(rows) == 0 {
		return ""
	}
	shown := rows[:min(len(rows), maxGroups)]
	more := ""
	if len(shown) < len(rows) {
		more = "… and " + report.Count(len(rows)-len(shown)) + " more.\n"
	}
	head := []string{"Agent", "Dataset", "", ">Pass rate", ">Mean reward", ">Trials", ">Errors", ">Not run", ">Cost", ">Time"}
	return Join("### Results", table(head, shown), more, p.attempts(), p.costs())
}

// attempts returns pass@k for each agent; nothing if tasks have one attempt only.
func (p *Page) attempts() string {
	agents := slices.Sorted(maps.Keys(p.in.Job.Agents))
	var rows [][]string
	for _, agent := range agents {
		for i, k := range result.ShownPassK(p.in.Job.Agents[agent].PassK) {
			first := ""
			if i == 0 {
				first = name(agent)
			}
			rows = append(rows, []string{first, report.Count(k.K), report.Percent(k.PassAt), report.Percent(k.PassHat), report.Count(k.Tasks)})
		}
	}
	if len(rows) == 0 {
		return ""
	}
	more := ""
	if len(rows) > maxGroups {
		more = "… and more agents.\n"
		rows = rows[:maxGroups]
	}
	return Join(table([]string{"Agent", ">k", ">`pass@k`", ">`pass^k`", ">Tasks"}, rows), more,
		"`pass@k`: one of k attempts at a task passes; `pass^k`: all of them do. Tasks with fewer than k completed attempts are left out.\n")
}

// costs returns the parts of the cost, if there is more than one.
func (p *Page) costs() string {
	c := p.in.Job.Costs
	var parts []string
	for _, part := range []struct {
		what string
		cost result.USD
	}{{"model", c.Model}, {"environment", c.Environment}, {"judges", c.Judges}} {
		if part.cost.Amount() > 0 {
			parts = append(parts, part.what+" "+report.Cost(part.cost))
		}
	}
	if len(parts) < 2 {
		return ""
	}
	return "Cost: " + strings.Join(parts, ", ") + ".\n"
}
