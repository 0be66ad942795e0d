package gate

import (
	"slices"
	"testing"

	"github.com/org/rollout-action/internal/result"
)

// confirmed adds a job's confirmation attempts at a task of agent a; a reward below 0 stands for an error of the agent.
func confirmed(job *result.Job, task string, rewards ...float64) {
	for i, r := range rewards {
		o := result.Outcome{Key: result.Key{Agent: "a", Dataset: "d", Task: task, Attempt: 100 + i}, Reward: &r}
		if r < 0 {
			o.Reward, o.Error = nil, result.AgentExecutionTimeout
		}
		job.Confirmations = append(job.Confirmations, o)
	}
}

// failures adds an attempt at a task for each error.
func failures(job *result.Job, task string, errors ...result.ErrorType) {
	for _, e := range errors {
		n := 1
		for _, o := range job.Results {
			if o.Agent == "a" && o.Task == task {
				n++
			}
		}
		job.Results = append(job.Results, result.Outcome{Key: result.Key{Agent: "a", Dataset: "d", Task: task, Attempt: n}, Error: e})
	}
}

func TestConfirmable(t *testing.T) {
	policy := Policy{Thresholds: Thresholds{MaxBrokenTasks: new(0)}, Confirm: Confirm{Attempts: 4}}
	var base, head result.Job
	add := func(task string, before, after []float64, errors ...result.ErrorType) {
		addTask(&base, "a", "d", task, before...)
		addTask(&head, "a", "d", task, after...)
		failures(&head, task, errors...)
	}
	add("broken", []float64{1, 1}, []float64{0, 0})
	add("crashed", []float64{1}, nil, result.AgentExecutionTimeout)
	add("no-verdict", []float64{1}, nil, result.VerifierRewardMissing)
	add("lost-and-infrastructure", []float64{1}, nil, result.AgentExecutionFailed, result.EnvironmentLost)
	add("infrastructure", []float64{1}, nil, result.EnvironmentStartFailed, result.Cancelled)
	add("task-invalid", []float64{1}, nil, result.TaskInvalid)
	add("flaky-before", []float64{1, 0}, []float64{0, 0})
	add("flaky-now", []float64{1, 1}, []float64{0, 1})
	add("graded-before", []float64{0.9}, []float64{0})
	add("fine", []float64{1}, []float64{1})
	add("quarantined", []float64{1}, []float64{0})
	add("crashed-before", []float64{1}, []float64{0})
	failures(&base, "crashed-before", result.AgentExecutionFailed)
	addTask(&head, "a", "d", "new", 0)
	addTask(&base, "a", "d", "removed", 1)
	policy.Quarantine = []Quarantine{{Task: "quar*", Reason: "r", Until: "2027-01-01"}}

	want := []string{"broken", "crashed", "lost-and-infrastructure", "no-verdict"}
	names := func(p Policy, head result.Job) (out []string) {
		for _, k := range p.Confirmable(base, head, today) {
			if k.Agent != "a" || k.Dataset != "d" || k.Attempt != 0 {
				t.Errorf("key %+v", k)
			}
			out = append(out, k.Task)
		}
		return out
	}
	if got := names(policy, head); !slices.Equal(got, want) {
		t.Errorf("confirmable %v, want %v", got, want)
	}
	var dead result.Job
	failures(&dead, "broken", result.AgentExecutionFailed)
	failures(&dead, "fine", result.AgentExecutionFailed)
	if got := names(policy, dead); got != nil {
		t.Errorf("an agent that does not work at all: %v", got)
	}
	again := head
	confirmed(&again, "broken", 1)
	if got := names(policy, again); !slices.Equal(got, want) {
		t.Errorf("after confirmation %v, want the same tasks %v", got, want)
	}
	few := policy
	few.Confirm.MaxTasks = 2
	if got := names(few, head); !slices.Equal(got, want[:2]) {
		t.Errorf("at most 2: %v", got)
	}
	off := policy
	off.Confirm.Attempts = 0
	unlimited := policy
	unlimited.MaxBrokenTasks = nil
	other := unlimited
	other.Groups = []Group{{Agent: "b", Thresholds: Thresholds{MaxBrokenTasks: new(0)}}}
	for name, p := range map[string]Policy{"no attempts": off, "no limit": unlimited, "another agent's limit": other} {
		if got := names(p, head); got != nil {
			t.Errorf("%s: confirmable %v", name, got)
		}
	}
	other.Groups[0].Agent = "[a]"
	if got := names(other, head); !slices.Equal(got, want) {
		t.Errorf("its group's limit: %v", got)
	}
}

// TestConfirmationDecides: a task that passes one of its confirmation attempts is flaky, and only one that never passes is broken.
func TestConfirmationDecides(t *testing.T) {
	p := Policy{Thresholds: Thresholds{MaxBrokenTasks: new(0), MaxPassRateDrop: new(0.0)}, Confirm: Confirm{Attempts: 4}, Noise: NoiseIgnore}
	base, head := fall(10, 3)
	confirmed(&head, "t0000", 0, 0, 0, 0)
	confirmed(&head, "t0001", 0, 1)
	confirmed(&head, "t0002", -1, 0.5, 1)
	v := verdict(p, base, head)
	c := find(t, v, "max_broken_tasks")
	if c.Value != 1 || c.Message != "1 task broke (passed in every attempt of the baseline, and in none now), at most 0 may; 2 more tasks passed when tried again (flaky)" || c.Hint != "" {
		t.Errorf("%+v", c)
	}
	if d := find(t, v, "max_pass_rate_drop"); d.Value < 0.3-1e-9 || d.Value > 0.3+1e-9 {
		t.Errorf("confirmation attempts are part of a drop: %+v", d)
	}
}
