package run

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/app"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/job/spending"
)

func TestADryRunSaysWhenTheBudgetStopsIt(t *testing.T) {
	limit, minutes := 20.0, 90*time.Minute
	for name, tc := range map[string]struct {
		budget app.BudgetEstimate
		wall   bool
		want   []string
	}{
		"no budget":     {},
		"enough":        {app.BudgetEstimate{MaxCostUSD: &limit, CostKnown: true}, false, []string{"max_cost_usd ($20.00) would not stop the job"}},
		"used up":       {app.BudgetEstimate{MaxCostUSD: &limit, CostKnown: true, Forecast: spending.Forecast{Stops: result.StopBudgetCost, Left: 4}}, false, []string{"max_cost_usd ($20.00) is used up already: no trial would start"}},
		"stops":         {app.BudgetEstimate{MaxDuration: &minutes, TimeKnown: true, Forecast: spending.Forecast{Stops: result.StopBudgetDuration, Run: 3, Cancelled: 1, Left: 2, After: minutes}}, true, []string{"max_duration (1h30m) would stop the job after about 3 trials and 1h30m: 1 would be cancelled, 2 would not start"}},
		"nothing known": {app.BudgetEstimate{MaxCostUSD: &limit}, false, []string{"whether max_cost_usd ($20.00) would stop the job is not known, because the cost is not"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := app.DryRun{Budget: tc.budget}
			if tc.wall {
				d.Estimate.Wall = &minutes
			}
			if got := budgetText(d); !slices.Equal(got, tc.want) {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

// TestUnknownIsNotZero: a program that reads the JSON of a dry run must not take what nothing is
// known about for free or instant.
func TestUnknownIsNotZero(t *testing.T) {
	out := dryRunJSON(app.DryRun{Trials: []app.DryTrials{{Task: "one", Attempts: 1}}})
	if out.Estimate.Sec != nil || out.Estimate.CostUSD != nil || out.Budget != nil || out.Tasks[0].Sec != nil {
		t.Errorf("%+v", out)
	}
	var b strings.Builder
	writeDryRun(&b, app.DryRun{Trials: []app.DryTrials{{Task: "one", Attempts: 1}}, Estimate: app.Estimate{Trials: 1}})
	if text := b.String(); !strings.Contains(text, "Time: not known: there is no earlier job") || !strings.Contains(text, "Cost: not known") {
		t.Error(text)
	}
}
