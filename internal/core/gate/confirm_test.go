package gate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
)

// confirmed adds a job's confirmation attempts at a task of agent a; a reward below 0 stands for an
// error of the agent.
func confirmed(job *result.Job, task string, rewards ...float64) {
	for i, r := range rewards {
		o := result.Outcome{Key: result.Key{Agent: "a", Dataset: "d", Task: task, Attempt: 100 + i}, Reward: &r}
		if r < 0 {
			o.Reward, o.Error = nil, result.AgentExecutionTimeout
		}
		job.Confirmations.Append(o)
	}
}

// failures adds an attempt at a task for each error.
func failures(job *result.Job, task string, errors ...result.ErrorType) {
	for _, e := range errors {
		n := 1
		for _, o := range job.Results.All() {
			if o.Agent == "a" && o.Task == task {
				n++
			}
		}
		job.Results.Append(result.Outcome{Key: result.Key{Agent: "a", Dataset: "d", Task: task, Attempt: n}, Error: e})
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
	both := false
	var fixed []string
	names := func(p Policy, head result.Job) (out []string) {
		planned := p.Confirmable(base, head, today, both)
		if planned.Both != both && planned.Attempts > 0 {
			t.Errorf("%+v", planned)
		}
		fixed = nil
		for _, k := range planned.Fixed {
			fixed = append(fixed, k.Task)
		}
		for _, k := range planned.Tasks {
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
	if got := names(few, head); !slices.Equal(got, []string{"crashed", "no-verdict"}) {
		t.Errorf("at most 2, by a lot: %v", got)
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

	both = true
	add("fixed", []float64{0, 0.5}, []float64{1, 1})
	add("fixed-in-part", []float64{0, 0}, []float64{1, 0})
	add("passed-before", []float64{0, 1}, []float64{1, 1})
	addTask(&head, "a", "d", "crashed-then", 1)
	failures(&base, "crashed-then", result.AgentExecutionTimeout)
	if got, want := names(policy, head), []string{"broken", "crashed", "crashed-then", "fixed", "lost-and-infrastructure", "no-verdict"}; !slices.Equal(got, want) || !slices.Equal(fixed, []string{"crashed-then", "fixed"}) {
		t.Errorf("with the baseline %v, of which %v look fixed; want %v", got, fixed, want)
	}
	few.Confirm.MaxTasks = 5
	if got := names(few, head); len(got) != 5 || len(fixed) != 1 {
		t.Errorf("at most 5 of both: %v, of which %v look fixed", got, fixed)
	}
	for name, p := range map[string]Policy{"no attempts": off, "no limit": unlimited} {
		if got := names(p, head); got != nil {
			t.Errorf("%s: confirmable %v", name, got)
		}
	}
	ignore := policy
	ignore.Noise = NoiseIgnore
	if planned := ignore.Confirmable(base, head, today, true); planned.Both || len(planned.Fixed) > 0 || len(planned.Tasks) != 4 {
		t.Errorf("nothing is tested, so what looks fixed does not matter: %+v", planned)
	}
}

// TestTheChoiceOfTasksFavoursNeitherKind: which tasks are tried again, if there are too many, is
// the same if job and baseline are exchanged.
func TestTheChoiceOfTasksFavoursNeitherKind(t *testing.T) {
	p := Policy{Thresholds: Thresholds{MaxBrokenTasks: new(0)}, Confirm: Confirm{Attempts: 4}}
	for seed := range uint64(20) {
		w := suite{Tasks: 400, Attempts: 1, A: 1, B: 1}.Draw(rand.New(rand.NewPCG(seed, 1)))
		one, other := p.Confirmable(w.Base, w.Head, today, true), p.Confirmable(w.Head, w.Base, today, true)
		if len(one.Tasks) != 100 || !slices.Equal(one.Tasks, other.Tasks) || len(one.Fixed)+len(other.Fixed) != 100 {
			t.Errorf("%d tasks, of which %d look fixed; exchanged %d, of which %d do", len(one.Tasks), len(one.Fixed), len(other.Tasks), len(other.Fixed))
		}
	}
}

// TestConfirmationDecides: a task that passes one of its confirmation attempts is flaky, and only
// one that never passes is broken.
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

// TestConfirmationKeepsTheTestOfTasksThatLookedBroken: with 18 tasks that look broken and 12 that
// look fixed, of 100, p is that of 18 : 12 if the job alone tries again those that look broken, and
// that of 8 : 0 if the baseline, too, tries both kinds again.
func TestConfirmationKeepsTheTestOfTasksThatLookedBroken(t *testing.T) {
	p := Policy{Thresholds: Thresholds{MaxBrokenTasks: new(0)}, Confirm: Confirm{Attempts: 4}}
	draw := func(brokenTasks int) (base, head result.Job) {
		for i := range 100 {
			name := fmt.Sprintf("t%02d", i)
			switch {
			case i < brokenTasks+10: // the last ten by chance
				addTask(&base, "a", "d", name, 1)
				addTask(&head, "a", "d", name, 0)
			case i < brokenTasks+22:
				addTask(&base, "a", "d", name, 0)
				addTask(&head, "a", "d", name, 1)
			default:
				addTask(&base, "a", "d", name, 1)
				addTask(&head, "a", "d", name, 1)
			}
		}
		return base, head
	}
	t.Run("the job alone", func(t *testing.T) {
		for _, c := range []struct {
			broken int
			want   Outcome
			text   string
		}{
			{8, Inconclusive, "8 tasks broke (passed in every attempt of the baseline, and in none now), at most 0 may; 10 more tasks passed when tried again (flaky); before they were tried again, 18 tasks looked broken and 12 fixed: chance alone does that in 14.1% of runs, so this suite cannot tell it from chance"},
			{14, Fail, "before they were tried again, 24 tasks looked broken and 12 fixed: chance alone does that in 2.4% of runs"},
			{0, Pass, "0 tasks broke (passed in every attempt of the baseline, and in none now), at most 0 may; 10 more tasks passed when tried again (flaky)"},
		} {
			base, head := draw(c.broken)
			for i := range c.broken {
				confirmed(&head, fmt.Sprintf("t%02d", i), 0, 0, 0, 0)
			}
			for i := range 10 {
				confirmed(&head, fmt.Sprintf("t%02d", c.broken+i), 1)
			}
			got := find(t, verdict(p, base, head), "max_broken_tasks")
			if got.Outcome != c.want || !strings.HasSuffix(got.Message, c.text) {
				t.Errorf("%d broken: %s, %s", c.broken, got.Outcome, got.Message)
			}
			if c.want == Inconclusive && got.Hint != "it takes 22 tasks that look broken to be more than chance when 12 look fixed; --against or --confirm-against tries both kinds again with the baseline, so that fewer tasks look broken by chance" {
				t.Error(got.Hint)
			}
		}
	})
	t.Run("the baseline, too", func(t *testing.T) {
		for _, c := range []struct {
			broken int
			want   Outcome
			text   string
		}{
			{8, Fail, "8 tasks broke (passed in every attempt of the baseline, and in none now), at most 0 may; 10 more tasks passed when tried again (flaky); chance alone does that in 0.2% of runs"},
			{1, Inconclusive, "1 task broke (passed in every attempt of the baseline, and in none now), at most 0 may; 10 more tasks passed when tried again (flaky); chance alone does that in 25.0% of runs, so this suite cannot tell it from chance"},
		} {
			base, head := draw(c.broken)
			base.Beside, head.Beside, head.ConfirmsBoth = &result.Beside{Baseline: true}, &result.Beside{}, true
			for i := range c.broken + 22 {
				name := fmt.Sprintf("t%02d", i)
				switch {
				case i < c.broken:
					confirmed(&head, name, 0, 0, 0, 0)
					confirmed(&base, name, 1, 1, 1, 1)
				case i < c.broken+10:
					confirmed(&head, name, 1)
					confirmed(&base, name, 1)
				default:
					confirmed(&head, name, 1)
					confirmed(&base, name, 1)
				}
			}
			got := find(t, verdict(p, base, head), "max_broken_tasks")
			if got.Outcome != c.want || got.Message != c.text {
				t.Errorf("%d broken: %s, %s", c.broken, got.Outcome, got.Message)
			}
			if c.want == Inconclusive && got.Hint != "it takes 4 broken tasks to be more than chance; the attempts at one task may end alike, so a task that failed all of them still counts once" {
				t.Error(got.Hint)
			}
		}
	})
}

// TestTasksThatWereNotTriedAgainCountInProportion: max_tasks turns no flaky task into a broken one,
// and hides no broken one.
func TestTasksThatWereNotTriedAgainCountInProportion(t *testing.T) {
	for _, c := range []struct {
		confirmed, tried, looked int
		limit                    int
		value                    float64
		want                     Outcome
	}{
		{confirmed: 0, tried: 20, looked: 46, value: 0, want: Pass},
		{confirmed: 2, tried: 20, looked: 46, value: 4, want: Fail},
		{confirmed: 20, tried: 20, looked: 60, limit: 30, value: 60, want: Fail},
		{confirmed: 5, tried: 20, looked: 60, limit: 30, value: 15, want: Pass},
		{confirmed: 0, tried: 0, looked: 10, value: 10, want: Fail},
	} {
		p := Policy{Thresholds: Thresholds{MaxBrokenTasks: &c.limit}, Confirm: Confirm{Attempts: 4}}
		base, head := fall(300, c.looked)
		for i := range c.tried {
			rewards := []float64{0, 0, 0, 0}
			if i >= c.confirmed {
				rewards = []float64{0, 1}
			}
			confirmed(&head, fmt.Sprintf("t%04d", i), rewards...)
		}
		if got := find(t, verdict(p, base, head), "max_broken_tasks"); got.Value != c.value || got.Outcome != c.want {
			t.Errorf("%d of %d confirmed, and %d look broken: %s\n%s", c.confirmed, c.tried, c.looked, got.Outcome, got.Message)
		}
	}
}

// Tasks of an agent that does not work at all count, whatever further attempts at the tasks of
// another one have shown.
func TestTasksOfADeadAgentAreNotEstimated(t *testing.T) {
	p := Policy{Thresholds: Thresholds{MaxBrokenTasks: new(0)}, Confirm: Confirm{Attempts: 4}}
	for _, both := range []bool{false, true} {
		var base, head result.Job
		for i := range 20 {
			name := fmt.Sprintf("t%02d", i)
			addTask(&base, "dead", "d", name, 1)
			addTask(&head, "dead", "d", name, 0)
			head.Results.Change(head.Results.Len()-1, func(o *result.Outcome) { o.Reward, o.Error = nil, result.AgentExecutionFailed })
			addTask(&base, "a", "d", name, 1)
			addTask(&head, "a", "d", name, min(float64(i), 1))
		}
		confirmed(&head, "t00", 1)
		if both {
			confirmed(&base, "t00", 1)
			head.ConfirmsBoth = true
		}
		c := find(t, verdict(p, base, head), "max_broken_tasks")
		if c.Outcome != Fail || c.Value != 20 {
			t.Errorf("both %v: %+v", both, c)
		}
	}
}
