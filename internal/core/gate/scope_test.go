package gate

import (
	"fmt"
	"math"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
)

// nop neither lowers the rates of others nor breaks tasks. Its errors count like others'.
func TestNopIsNotGated(t *testing.T) {
	var base, head result.Job
	addTask(&base, "mine", "d", "t", 1)
	addTask(&head, "mine", "d", "t", 1)
	addTask(&base, "nop", "d", "t", 1)
	addTask(&head, "nop", "d", "t", 0)
	limits := Thresholds{MinPassRate: new(1.0), MinMeanReward: new(1.0), MaxBrokenTasks: new(0), MaxPassRateDrop: new(0.0)}
	v := verdict(Policy{Thresholds: limits, Noise: NoiseIgnore}, base, head)
	for _, c := range v.Checks {
		if c.Outcome != Pass {
			t.Errorf("%+v", c)
		}
	}
	named := Policy{Groups: []Group{{Agent: "nop", Thresholds: Thresholds{MinPassRate: new(0.5)}}}}
	if c := find(t, verdict(named, base, head), "min_pass_rate"); c.Outcome != Fail {
		t.Errorf("a group that names nop: %+v", c)
	}
	addErrors(&head, "nop", "d", "lost", 1)
	if c := find(t, verdict(Policy{}, base, head), "max_failed_trials"); c.Outcome != Fail {
		t.Errorf("an environment was lost: %+v", c)
	}
}

// If nothing could be compared, it is unknown whether a task broke.
func TestBrokenTasksAreNotCheckedWithoutAComparison(t *testing.T) {
	base, _ := fall(3, 0)
	var head result.Job
	for i := range 3 {
		head.Results.Append(result.Outcome{Key: base.Results.At(i).Key, Error: result.EnvironmentLost})
	}
	for _, noise := range []Noise{NoiseTest, NoiseIgnore} {
		c := find(t, verdict(Policy{Thresholds: Thresholds{MaxBrokenTasks: new(0)}, Noise: noise}, base, head), "max_broken_tasks")
		if !c.Skipped || c.Message != "not checked: "+noComparison {
			t.Errorf("%s: %+v", noise, c)
		}
	}
}

// TestOracleAndNopEnterNoLimitOfTheWholeJob: in a job with other agents they enter no rate, mean,
// drop or number of broken tasks, unless a group names them; alone they do.
func TestOracleAndNopEnterNoLimitOfTheWholeJob(t *testing.T) {
	var base, head result.Job
	for i := range 100 {
		name := fmt.Sprintf("t%02d", i)
		before, now := 0.0, 0.0
		if i < 70 {
			before = 1
		}
		if i < 61 {
			now = 1
		}
		for agent, rewards := range map[string][2]float64{"my-agent": {before, now}, "oracle": {1, 1}, "nop": {0, 0}} {
			addTask(&base, agent, "d", name, rewards[0])
			addTask(&head, agent, "d", name, rewards[1])
		}
	}
	for _, job := range []*result.Job{&base, &head} {
		for i, o := range job.Results.All() {
			score := 0.2
			if o.Agent == "my-agent" {
				score = *o.Reward
			}
			job.Results.Change(i, func(o *result.Outcome) {
				o.Scores = map[string]result.OutcomeScore{"quality": {Score: &score, Judge: "1"}}
			})
			cost := 0.5
			if o.Agent == "oracle" {
				cost = 0
			}
			job.Results.Change(i, func(o *result.Outcome) { o.Cost = result.Dollars(cost) })
		}
	}
	limits := Thresholds{
		MaxPassRateDrop: new(0.05), MaxMeanRewardDrop: new(0.05), MaxBrokenTasks: new(0), MinPassRate: new(0.7), MinPassRateAll: new(0.7), MinMeanReward: new(0.7),
		Scores: map[string]ScoreLimits{"quality": {Min: new(0.7), MaxDrop: new(0.05)}}, MaxCostIncrease: new(0.1),
	}
	want := map[string]float64{
		"max_pass_rate_drop": 0.09, "max_mean_reward_drop": 0.09, "max_broken_tasks": 9, "min_pass_rate": 0.61, "min_pass_rate_all": 0.61, "min_mean_reward": 0.61,
		"scores.quality.min": 0.61, "scores.quality.max_drop": 0.09,
	}
	check := func(p Policy, head result.Job, want map[string]float64, group string, outcome Outcome) {
		t.Helper()
		v := verdict(p, base, head)
		found := 0
		for _, c := range v.Checks {
			value, ok := want[c.Name]
			if !ok || c.Agent != group {
				continue
			}
			found++
			if math.Abs(c.Value-value) > 1e-9 || c.Outcome != outcome {
				t.Errorf("%s of %q is %v and %s, want %v and %s: %s", c.Name, group, c.Value, c.Outcome, value, outcome, c.Message)
			}
		}
		if found != len(want) {
			t.Errorf("%d of %d checks of %q: %+v", found, len(want), group, v.Checks)
		}
	}
	check(Policy{Thresholds: limits}, head, want, "", Fail)
	for _, glob := range []string{"*", "my-*"} {
		check(Policy{Groups: []Group{{Agent: glob, Thresholds: limits}}}, head, want, glob, Fail)
	}
	good := map[string]float64{"max_pass_rate_drop": 0, "max_broken_tasks": 0, "min_pass_rate": 1, "min_pass_rate_all": 1, "min_mean_reward": 1}
	check(Policy{Groups: []Group{{Agent: "oracle", Thresholds: limits}}}, head, good, "oracle", Pass)
	check(Policy{Groups: []Group{{Agent: "nop", Thresholds: limits}}}, head, map[string]float64{"min_pass_rate": 0, "min_mean_reward": 0}, "nop", Fail)
	alone := head
	alone.Results = head.Results.Without(func(o result.Outcome) bool { return o.Agent == "my-agent" })
	check(Policy{Thresholds: limits}, alone, good, "", Pass)

	// Tasks that enter no limit are not tried again.
	broken := head
	broken.Results = head.Results.Clone()
	for i, o := range broken.Results.All() {
		if o.Agent == "oracle" && o.Task < "t10" {
			broken.Results.Change(i, func(o *result.Outcome) { o.Reward = new(0.0) })
		}
	}
	confirm := Policy{Thresholds: limits, Confirm: Confirm{Attempts: 1, MaxTasks: 50}}
	if n := len(confirm.Confirmable(base, broken, today, false).Tasks); n != 9 {
		t.Errorf("%d tasks are tried again, want the agent's 9", n)
	}
	confirm.Groups = []Group{{Agent: "oracle", Thresholds: limits}}
	if n := len(confirm.Confirmable(base, broken, today, false).Tasks); n != 19 {
		t.Errorf("%d tasks are tried again, want the agent's 9 and the oracle's 10", n)
	}
	if d := result.Compare(base, broken); d.Overall.Tasks != 100 || d.Counts[result.Broken] != 19 || d.CountsEvaluated()[result.Broken] != 9 {
		t.Errorf("%d tasks, %d broken, %d of them the agent's", d.Overall.Tasks, d.Counts[result.Broken], d.CountsEvaluated()[result.Broken])
	}
}
