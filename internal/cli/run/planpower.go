package run

import (
	"context"
	"fmt"
	"strconv"

	"github.com/org/rollout-action/internal/app"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/cli/tables"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// showPower prints how small a change the gate shows, by the number of attempts.
func showPower(ctx context.Context, v *command.Invocation, req stages.JobRequest, earlier string, asJSON bool) error {
	p, err := app.PlanPower(ctx, v.Host(), req, earlier)
	if err != nil {
		return err
	}
	if asJSON {
		return v.PrintJSON(p)
	}
	fmt.Fprintf(v.Stdout, "The smallest changes that the gate shows in four of five runs of %s, at %s confidence: an estimate.\n\n",
		plural.Count(p.Tasks, "task"), strconv.FormatFloat(p.Confidence, 'g', -1, 64))
	w := tables.New(v.Stdout)
	w.Row("ATTEMPTS", "TRIALS", "COST", "STOPPED EARLY", "PASS RATE FALLS BY", "TASKS THAT BREAK")
	for _, row := range p.Rows {
		cost, early, drop, broken := "–", "–", "none", "none"
		if row.CostUSD != nil {
			cost = report.Dollars(*row.CostUSD)
		}
		if row.EarlyTrials != nil {
			early = strconv.Itoa(*row.EarlyTrials)
			if row.EarlyCostUSD != nil {
				early += ", " + report.Dollars(*row.EarlyCostUSD)
			}
		}
		if row.PassRateDrop != nil {
			drop = fmt.Sprintf("%.1f points", *row.PassRateDrop*100)
		}
		if row.BrokenTasks > 0 {
			broken = strconv.Itoa(row.BrokenTasks)
		}
		w.Row(strconv.Itoa(row.Attempts), strconv.Itoa(row.Trials), cost, early, drop, broken)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(v.Stdout, "\n%s\n%s\n%s\n%s\n", powerSource(p), trialsMeaning, earlyMeaning(p), powerMeaning)
	if p.Pool > 1 {
		fmt.Fprintf(v.Stdout, "The changes are those that a baseline of one run shows. Up to %d runs (gate.baseline.pool) show smaller ones, which is not estimated.\n", p.Pool)
	}
	return nil
}

// earlyMeaning explains the column about jobs that end early.
func earlyMeaning(p app.Power) string {
	switch {
	case p.EarlyUnknown != "" && p.Tasks > 0:
		return "STOPPED EARLY: not known. gate.stop: early " + p.EarlyUnknown + "."
	case !p.EarlyDiffers:
		return "STOPPED EARLY: expected trials with gate.stop: early if nothing changed, against a stored baseline. The verdict is that of all attempts."
	}
	return "STOPPED EARLY: trials with gate.stop: early if nothing changed, where that was measured. It shows a drop in up to 3 of 100 runs fewer on average."
}

// powerSource names the results that an estimate is computed from.
func powerSource(p app.Power) string {
	if p.Earlier == "" {
		return "Tasks are taken to pass with probabilities from 0 to 1, evenly spread. --timings names an earlier job, for yours and for costs."
	}
	text := "By the scores and costs in " + untrusted.Line(p.Earlier) + "."
	if p.Unknown > 0 {
		text += fmt.Sprintf(" It has no score of %d of %d pairs of an agent and a task: they count as the agent's other tasks, or as evenly spread if there is none.", p.Unknown, p.Tasks*p.Agents)
	}
	if p.Uncosted > 0 {
		text += fmt.Sprintf(" Costs are without %s of unknown cost.", plural.Count(p.Uncosted, "pair"))
	}
	return text
}

const (
	trialsMeaning = "Trials and costs are of one job; with --against the baseline runs, too: twice as many. A stored baseline has as many attempts."
	powerMeaning  = `PASS RATE FALLS BY: by max_pass_rate_drop, if many tasks share the fall. TASKS THAT BREAK: by max_broken_tasks, if so many tasks that
do well never pass any more; with more attempts, fewer tasks pass in all attempts of the baseline. Attempts are taken to be independent.`
)
