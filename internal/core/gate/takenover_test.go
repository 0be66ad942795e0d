package gate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/result"
)

// reusing returns a baseline and a job of so many tasks that took the first ones over from it. The
// others passed in the baseline, and have the reward now.
func reusing(tasks, taken int, reward float64) (base, head result.Job) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	base.Experiments, head.Experiments = []result.Experiment{{AgentDigest: "a"}}, []result.Experiment{{AgentDigest: "a"}, {AgentDigest: "b"}}
	for i := range tasks {
		o := result.Outcome{Key: result.Key{Agent: "mine", Dataset: "d", Task: fmt.Sprintf("t%02d", i), Attempt: 1}, Reward: new(1.0), TaskDigest: "x", Experiment: 1, StartedAt: began}
		base.Results.Append(o)
		if o.Reused = i < taken; !o.Reused {
			o.Reward, o.StartedAt, o.Experiment = new(reward), began.Add(time.Hour), 2
		}
		head.Results.Append(o)
	}
	head.ReusedTrials = taken
	return base, head
}

var dropsAndBroken = Policy{OnNoBaseline: Fail, Thresholds: Thresholds{MaxPassRateDrop: new(0.0), MaxBrokenTasks: new(0)}}

// A trial compared with itself is no evidence: the tests have the tasks that ran, as if the others
// did not exist.
func TestTasksTakenOverFromTheBaselineEnterNoTest(t *testing.T) {
	for _, reward := range []float64{0, 1} {
		base, head := reusing(60, 50, reward)
		v := verdict(dropsAndBroken, base, head)
		alone, aloneHead := base, head
		alone.Results, aloneHead.Results, aloneHead.ReusedTrials = base.Results.Without(firstOf(50)), head.Results.Without(firstOf(50)), 0
		want := verdict(dropsAndBroken, alone, aloneHead)
		for _, name := range []string{"max_pass_rate_drop", "max_broken_tasks"} {
			got, other := find(t, v, name), find(t, want, name)
			if got.Outcome != other.Outcome || got.Value != other.Value {
				t.Errorf("reward %g: %+v, without the others %+v", reward, got, other)
			}
		}
		if !strings.Contains(strings.Join(v.Notes, "\n"), "50 tasks are the same as in the baseline") {
			t.Errorf("notes: %q", v.Notes)
		}
	}
}

// Errors of the baseline run again, and can only get better. They are no evidence either.
func TestAnErrorOfTheBaselineThatRunsAgainIsNoImprovement(t *testing.T) {
	base, head := reusing(40, 30, 1)
	for i := 30; i < 40; i++ {
		base.Results.Change(i, func(o *result.Outcome) { o.Reward, o.Error = nil, result.AgentExecutionTimeout })
		head.Results.Change(i, func(o *result.Outcome) { o.Experiment = 1 })
	}
	diff := result.Compare(base, head)
	for _, task := range diff.Tasks {
		if task.Comparable() && !task.TakenOver {
			t.Errorf("%s counts", task.Task)
		}
	}
	if v := verdict(dropsAndBroken, base, head); v.Outcome != Pass || find(t, v, "max_pass_rate_drop").Skipped == false {
		t.Errorf("%s: %+v", v.Outcome, v.Checks)
	}
}

func TestAJobThatTookAllOverIsGreen(t *testing.T) {
	base, head := reusing(12, 12, 1)
	head.Unchanged = "5d6e7f8"
	base.Commit = new("5d6e7f8")
	p := dropsAndBroken // max_failed_trials holds without being named
	p.MinPassRate, p.MaxCostUSD, p.MaxJudgeCostUSD, p.MaxDurationSec = new(1.0), new(1.0), new(1.0), new(60.0)
	base.Results.Change(0, func(o *result.Outcome) { o.Reward = new(0.0) })
	head.Results.Change(0, func(o *result.Outcome) { o.Reward = new(0.0) })
	v := verdict(p, base, head)
	for _, c := range v.Checks {
		if c.Outcome != Pass || !c.Skipped || !strings.Contains(c.Message, "baseline's own") {
			t.Errorf("%+v", c)
		}
	}
	if len(v.Checks) != 7 {
		t.Errorf("%d checks", len(v.Checks))
	}
	base.Commit = new("other") // it was not taken over from this baseline
	if c := find(t, verdict(p, base, head), "min_pass_rate"); c.Skipped || c.Outcome != Fail {
		t.Errorf("compared with another baseline: %+v", c)
	}
	head.Unchanged = "" // without a commit the comparison is skipped all the same
	if c := find(t, verdict(p, base, head), "max_broken_tasks"); !c.Skipped || c.Outcome != Pass {
		t.Errorf("%+v", c)
	}
}
