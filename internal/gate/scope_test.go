package gate

import (
	"testing"

	"github.com/org/rollout-action/internal/result"
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

// If nothing could be compared, nobody knows whether a task broke.
func TestBrokenTasksAreNotCheckedWithoutAComparison(t *testing.T) {
	base, _ := fall(3, 0)
	var head result.Job
	for i := range 3 {
		head.Results = append(head.Results, result.Outcome{Key: base.Results[i].Key, Error: result.EnvironmentLost})
	}
	for _, noise := range []Noise{NoiseTest, NoiseIgnore} {
		c := find(t, verdict(Policy{Thresholds: Thresholds{MaxBrokenTasks: new(0)}, Noise: noise}, base, head), "max_broken_tasks")
		if !c.Skipped || c.Message != "not checked: "+noComparison {
			t.Errorf("%s: %+v", noise, c)
		}
	}
}
