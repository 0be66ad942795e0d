package look

import (
	"io"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/app/inspect"
	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/core/result"
)

func TestTableOfAgentsWithModels(t *testing.T) {
	for _, models := range []bool{true, false} {
		row := inspect.TableRow{Agent: "a", Cost: result.Dollars(1)}
		if models {
			row.Usage = &result.UsageMeans{Turns: new(8.0), InputTokens: new(12800.0), Cost: result.Dollars(0.4), Models: []string{"small"}}
		}
		table := inspect.Table{Rows: []inspect.TableRow{row, {Agent: "without"}}}
		for format, wants := range map[string][]string{"text": {"COST/TRIAL", "8 ", "12.8k", "$0.40"}, "csv": {"mean_turns", ",8,12800,,0.4,,small"}, "json": {`"turns": 8`}} {
			var out strings.Builder
			if err := printTable((command.Env{Stdout: &out, Stderr: io.Discard}), table, compareOptions{by: "agent", format: format}); err != nil {
				t.Fatal(err)
			}
			for _, want := range wants {
				if strings.Contains(out.String(), want) != models {
					t.Errorf("models %v: %q in:\n%s", models, want, out.String())
				}
			}
		}
	}
}

func TestDiffOfJobsWithModels(t *testing.T) {
	job := func(model string, turns int64, cost float64) result.Job {
		var plan result.Plan
		var trials []result.Trial
		for _, agent := range []string{"careful", "other"} {
			for _, task := range []string{"hello", "parse"} {
				trial := result.Trial{
					Key: result.Key{Agent: agent, Dataset: "core", Task: task, Attempt: 1}, Reward: new(1.0),
					Usage: &result.Usage{Turns: turns, Calls: turns, InputTokens: new(1600 * turns), OutputTokens: new(int64(1000)), ModelSec: 2 * float64(turns), Requested: "small"},
				}
				if agent == "other" {
					trial.Usage.Requested, trial.Usage.Unpriced = model, 1
				} else {
					trial.Costs.Model = result.Dollars(cost)
				}
				trial.Cost = trial.Costs.Total()
				trials = append(trials, trial)
				plan.Trials.Append(trial.Key)
			}
		}
		return result.Summarize(plan, trials)
	}
	var b strings.Builder
	writeDiff(&b, result.Compare(job("small", 5, 0.455), job("large", 8, 0.4)), 20)
	for _, want := range []string{
		"TURNS", "COST/TRIAL", "5 → 8 (+3)", "8.0k → 12.8k (+60%)", "$0.46 → $0.40 (−12%)", "10.0s → 16.0s (+60%)",
		"$0.46 → $0.40 (not comparable)",
		"Note: other: other models were used: small in the baseline, large now; the cost of 2 of 2 trials of the baseline is not known; the cost of 2 of 2 trials of this job is not known; so costs cannot be compared.",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in:\n%s", want, b.String())
		}
	}
	b.Reset()
	plain := result.Job{Results: result.OutcomesOf([]result.Outcome{{Key: result.Key{Agent: "a", Dataset: "d", Task: "t", Attempt: 1}, Reward: new(1.0)}}...)}
	writeDiff(&b, result.Compare(plain, plain), 20)
	if strings.Contains(b.String(), "TURNS") || strings.Contains(b.String(), "models") {
		t.Errorf("a job without models:\n%s", b.String())
	}
}
