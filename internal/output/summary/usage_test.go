package summary

import (
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/result"
)

// jobWithModels returns a job of two agents with models at two tasks. The cost of the calls of
// priceless is not known.
func jobWithModels(turns int64, cost float64, unpriced int64) (result.Job, []result.Group, []result.Trial) {
	plan := result.Plan{JobName: "pr-14"}
	var trials []result.Trial
	for _, agent := range []string{"careful", "priceless ::error::"} {
		for _, task := range []string{"hello", "parse"} {
			t := result.Trial{
				Key: result.Key{Agent: agent, Dataset: "core", Task: task, Attempt: 1}, Reward: new(1.0), Durations: result.Durations{TotalSec: 30},
				Usage: &result.Usage{Turns: turns, Calls: turns, InputTokens: new(1600 * turns), OutputTokens: new(int64(1000)), ModelSec: 2 * float64(turns), Requested: "small"},
			}
			if agent == "careful" {
				t.Costs.Model = result.Dollars(cost)
			} else if t.Usage.Unpriced = unpriced; unpriced == 0 {
				t.Costs.Model = result.Dollars(0.1)
			}
			t.Cost = t.Costs.Total()
			trials = append(trials, t)
			plan.Trials.Append(t.Key)
		}
	}
	return result.Summarize(plan, trials), result.Groups(plan, trials), trials
}

func TestSummaryOfAJobWithModels(t *testing.T) {
	base, _, _ := jobWithModels(5, 0.455, 0)
	head, groups, trials := jobWithModels(8, 0.4, 8)
	diff := result.Compare(base, head)
	for width, name := range map[int]string{100: "models", 40: "models-40"} {
		var b strings.Builder
		Write(&b, Input{Job: head, Groups: groups, Trials: result.PackAll(trials), Dir: "jobs/pr-14"}, false, width)
		WriteVerdict(&b, VerdictInput{Verdict: gate.Verdict{Outcome: gate.Pass, Reason: "all checks passed"}, Diff: &diff, Baseline: "main"}, false, width)
		golden(t, name, b.String())
	}
}
