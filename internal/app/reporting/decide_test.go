package reporting_test

import (
	"slices"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/result"
)

// TestRoundsContinue: however many results a job has when it is resumed, it makes the same rounds
// as one that was not interrupted, and leaves out the same trials.
func TestRoundsContinue(t *testing.T) {
	plan := result.Plan{JobName: "j", Rounds: &result.Rounds{Attempts: 3}}
	var base, all []result.Trial
	for _, task := range []string{"a", "b", "c", "d", "e", "f"} {
		for n := 1; n <= 3; n++ {
			key := result.Key{Agent: "x", Dataset: "d", Task: task, Attempt: n}
			plan.Trials.Append(key)
			base = append(base, result.Trial{Key: key, Reward: new(1.0)})
			all = append(all, result.Trial{Key: key, Reward: new(0.0)})
		}
	}
	slices.SortStableFunc(all, func(a, b result.Trial) int { return a.Attempt - b.Attempt }) // by round
	stored := result.Summarize(result.Plan{Trials: plan.Trials}, base)
	policy := gate.Policy{Thresholds: gate.Thresholds{MaxPassRateDrop: new(0.0)}}
	for begun := range 12 { // of which the process was killed after so many
		made := slices.Clone(all[:begun])
		for rounds := 0; ; rounds++ {
			left := func(wanted func(result.Key) bool) bool {
				return slices.ContainsFunc(all[len(made):], func(t result.Trial) bool { return wanted(t.Key) })
			}
			wanted, end, _ := reporting.Decide(policy, time.Now(), stored, plan, made, left)
			if end != nil {
				if end.Made != 2 || end.Reason != result.EndProven || len(end.NotNeeded) != 6 || end.NotNeeded[0].Attempt != 3 || len(made) != 12 {
					t.Errorf("continued after %d trials: %d were made, and the end is %+v", begun, len(made), end)
				}
				break
			}
			for _, trial := range all[len(made):] {
				if wanted(trial.Key) {
					made = append(made, trial)
				}
			}
			if rounds > 3 {
				t.Fatalf("continued after %d trials: no end", begun)
			}
		}
	}
}
