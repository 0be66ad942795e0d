package result

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"
)

// try adds an attempt in shorthand: a reward as a number, an error type, or "skipped".
func try(job *Job, key Key, what any) {
	o := Outcome{Key: key, Cost: Dollars(0.5), DurationSec: 2, TaskDigest: "sha256:1"}
	switch w := what.(type) {
	case float64:
		o.Reward = &w
	case int:
		o.Reward = new(float64(w))
	case ErrorType:
		o.Error = w
	case string:
		switch w {
		case "skipped":
			job.Skipped = append(job.Skipped, key)
			return
		case "unverified":
		default:
			panic(w)
		}
	}
	job.Results.Append(o)
}

func tries(what []any) Job {
	var job Job
	for i, w := range what {
		try(&job, Key{Agent: "a", Dataset: "d", Task: "t", Attempt: i + 1}, w)
	}
	return job
}

func TestChange(t *testing.T) {
	type list = []any
	for _, c := range []struct {
		name       string
		base, head list
		want       Change
		flaky      bool
	}{
		{"one attempt passed and does not any more", list{1}, list{0}, Broken, false},
		{"every attempt passed and none does, though some get a part", list{1, 1}, list{0.9, 0}, Broken, false},
		{"none passes, and one has an error besides", list{1, 1}, list{0, VerifierFailed}, Broken, false},
		{"the baseline passed wherever it had a reward", list{1, EnvironmentLost}, list{0, 0}, Broken, false},
		{"a baseline that was flaky cannot break", list{1, 0}, list{0, 0}, Worse, false},
		{"one of three attempts passes still", list{1, 1, 1}, list{0, 1, 0}, Worse, true},
		{"a part of the reward is lost below 1", list{0.5}, list{0.25}, Worse, false},
		{"negative rewards fall too", list{-1}, list{-2}, Worse, false},
		{"more than 1 is not a pass, and less than before", list{2}, list{1}, Fixed, false},
		{"no attempt passed, and every one does", list{0, 0.5}, list{1, 1}, Fixed, false},
		{"one of two passes now", list{0, 0}, list{1, 0}, Better, true},
		{"a flaky task that passes now", list{0, 1}, list{1, 1}, Better, false},
		{"the same rewards in another order", list{0, 1}, list{1, 0}, Same, true},
		{"as many, from more attempts", list{0, 1}, list{1, 0, 0, 1}, Same, true},
		{"equal means that differ by rounding", list{0.1}, list{0.1, 0.1, 0.1}, Same, false},
		{"small rewards are rewards", list{1e-9}, list{2e-9}, Better, false},
		{"there are only errors now", list{1, 0}, list{AgentExecutionFailed, AgentExecutionTimeout}, Errored, false},
		{"there were only errors, and all pass now", list{VerifierTimeout}, list{1, 1}, Fixed, false},
		{"there were only errors, and some pass now", list{VerifierTimeout}, list{1, 0}, Better, true},
		{"the verifier gave no verdict, and now it gives 0", list{VerifierTimeout}, list{0}, Same, false},
		{"a judge gave no verdict, and now there is a reward of 0", list{JudgeVerdictMissing}, list{0}, Same, false},
		{"a judge gives no verdict any more", list{1}, list{JudgeTimeout}, Errored, false},
		{"a judge gives no verdict once", list{1, 1}, list{1, JudgeFailed}, Worse, true},
		{"the infrastructure failed, and there is a reward of 0", list{EnvironmentLost}, list{0}, Better, false},
		{"only errors on both sides", list{VerifierTimeout}, list{AgentInstallFailed}, Same, false},
		{"an error that did not cost the reward", list{1}, list{1, EnvironmentTeardownFailed}, Same, false},
		{"an attempt passes and one crashes", list{1, 1}, list{1, AgentExecutionFailed}, Worse, true},
		{"an attempt passes and the infrastructure ends one", list{1, 1}, list{1, EnvironmentLost}, Same, true},
		{"an attempt crashed and none does", list{1, AgentExecutionTimeout}, list{1, 1}, Better, false},
		{"a baseline that crashed once cannot break", list{1, AgentExecutionTimeout}, list{0, 0}, Worse, false},
		{"half of the reward is lost to a crash", list{0.5, 0.5}, list{0.5, VerifierRewardMissing}, Worse, false},
		{"an attempt passes and one was cancelled", list{1, 1}, list{1, Cancelled}, Same, false},
		{"an attempt passes and one was skipped", list{1, 1}, list{1, "skipped"}, Same, false},
		{"the rest passed, and the attempt that ran does not", list{1, 1}, list{0, "skipped"}, Broken, false},
		{"it was skipped", list{1}, list{"skipped"}, Unknown, false},
		{"it was cancelled", list{1}, list{Cancelled}, Unknown, false},
		{"it was cancelled after an error", list{1, 1}, list{VerifierFailed, Cancelled}, Errored, false},
		{"the baseline was cancelled", list{Cancelled}, list{1}, Unknown, false},
		{"neither was verified", list{"unverified"}, list{"unverified"}, Unknown, false},
		{"it is not verified any more", list{1}, list{"unverified"}, Unknown, false},
		{"the baseline crashed and this was skipped", list{VerifierFailed}, list{"skipped"}, Unknown, false},
		{"it is new", nil, list{0}, New, false},
		{"it is new and did not run", nil, list{"skipped"}, New, false},
		{"it is gone", list{1}, nil, Removed, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := Compare(tries(c.base), tries(c.head))
			if len(d.Tasks) != 1 {
				t.Fatalf("%d tasks, want one", len(d.Tasks))
			}
			if got := d.Tasks[0]; got.Change != c.want || got.Flaky != c.flaky {
				t.Errorf("%s, flaky %v; want %s, %v", got.Change, got.Flaky, c.want, c.flaky)
			}
			if d.Counts[c.want] != 1 || len(d.Counts) != len(Changes) {
				t.Errorf("counts %v", d.Counts)
			}
			wantFlaky := 0
			if c.flaky {
				wantFlaky = 1
			}
			if d.Flaky != wantFlaky {
				t.Errorf("%d flaky tasks, want %d", d.Flaky, wantFlaky)
			}
		})
	}
}

func TestDigests(t *testing.T) {
	for _, c := range []struct {
		name, base, head string
		want             Change
	}{
		{"the task's files changed", "sha256:1", "sha256:2", Changed},
		{"the same files", "sha256:1", "sha256:1", Broken},
		{"the baseline's are not known", "", "sha256:1", Broken},
		{"this job's are not known", "sha256:1", "", Broken},
		{"nobody's are known", "", "", Broken},
	} {
		t.Run(c.name, func(t *testing.T) {
			base, head := tries([]any{1}), tries([]any{0})
			base.Results.Change(0, func(o *Outcome) { o.TaskDigest = c.base })
			head.Results.Change(0, func(o *Outcome) { o.TaskDigest = c.head })
			d := Compare(base, head)
			if got := d.Tasks[0]; got.Change != c.want || got.Comparable() != (c.want != Changed) {
				t.Errorf("%s, comparable %v", got.Change, got.Comparable())
			}
		})
	}
}

// TestMatching: order, duplicates, and attempts that have a result and are listed as skipped change
// nothing.
func TestMatching(t *testing.T) {
	var base, head Job
	for _, agent := range []string{"b", "a"} {
		for _, task := range []string{"z", "x", "y"} {
			try(&base, Key{Agent: agent, Dataset: "d", Task: task, Attempt: 1}, 1)
			try(&head, Key{Agent: agent, Dataset: "d", Task: task, Attempt: 2}, 0)
			try(&head, Key{Agent: agent, Dataset: "d", Task: task, Attempt: 1}, 1)
			try(&head, Key{Agent: agent, Dataset: "d", Task: task, Attempt: 1}, 0) // a second one: not counted
		}
	}
	head.Skipped = append(head.Skipped, Key{Agent: "a", Dataset: "d", Task: "x", Attempt: 1})
	before := slices.Clone(head.Results.rows)
	d := Compare(base, head)
	if !reflect.DeepEqual(before, head.Results.rows) {
		t.Error("the job was changed")
	}
	var names []string
	for _, task := range d.Tasks {
		names = append(names, task.Agent+task.Task)
		if a, sum := task.Head, task.Head.Sum(); a.Total != 2 || a.Passed != 1 || !slices.Equal(a.Rewards, []float64{1, 0}) || sum.Cost != Dollars(1) || sum.DurationSec != 4 {
			t.Errorf("%s: %+v", task.Task, *a)
		}
	}
	if want := []string{"ax", "ay", "az", "bx", "by", "bz"}; !slices.Equal(names, want) {
		t.Errorf("tasks %v, want %v", names, want)
	}
}

func TestLevels(t *testing.T) {
	var base, head Job
	key := func(agent, dataset, task string, n int) Key {
		return Key{Agent: agent, Dataset: dataset, Task: task, Attempt: n}
	}
	try(&base, key("a", "d", "1", 1), 1)
	try(&head, key("a", "d", "1", 1), 1)
	try(&head, key("a", "d", "1", 2), 1)
	try(&head, key("a", "d", "1", 3), 1)
	try(&base, key("a", "e", "2", 1), 1)
	try(&head, key("a", "e", "2", 1), 0.5)
	try(&base, key("a", "e", "3", 1), 1) // the agent lost it: compared as 0
	try(&head, key("a", "e", "3", 1), AgentExecutionTimeout)
	try(&base, key("a", "e", "4", 1), 1) // a judge failed: compared as 0
	try(&head, key("a", "e", "4", 1), JudgeFailed)
	try(&base, key("b", "d", "1", 1), 0) // only the infrastructure's error in this job: not compared
	try(&head, key("b", "d", "1", 1), EnvironmentLost)
	try(&head, key("b", "d", "new", 1), 0)
	d := Compare(base, head)

	want := GroupDiff{
		Tasks: 4,
		Base:  Level{PassRate: 1, MeanReward: 1, Cost: Dollars(0.5), DurationSec: new(2.0)},
		Head:  Level{PassRate: 1. / 4, MeanReward: 0.375, Cost: Dollars(0.5), DurationSec: new(2.0)}, // each task counts once, by the mean of its trials
	}
	if !reflect.DeepEqual(d.Overall, want) {
		t.Errorf("overall %+v\n   want %+v", d.Overall, want)
	}
	if got, want := d.Overall.Delta(), (Level{PassRate: want.Head.PassRate - 1, MeanReward: -0.625, Cost: Dollars(0), DurationSec: new(0.0)}); !reflect.DeepEqual(got, want) {
		t.Errorf("delta %+v, want %+v", got, want)
	}
	var agents, groups []string
	for _, g := range d.Agents {
		agents = append(agents, fmt.Sprint(g.Agent, g.Dataset, g.Tasks))
	}
	for _, g := range d.Groups {
		groups = append(groups, fmt.Sprint(g.Agent, g.Dataset, g.Tasks))
	}
	if want := []string{"a4", "b0"}; !slices.Equal(agents, want) {
		t.Errorf("agents %v, want %v", agents, want)
	}
	if want := []string{"ad1", "ae3", "bd0"}; !slices.Equal(groups, want) {
		t.Errorf("groups %v, want %v", groups, want)
	}
}

func TestHugeRewardsStayFinite(t *testing.T) {
	big := math.MaxFloat64
	d := Compare(tries([]any{big, big, big}), tries([]any{-big, -big}))
	if got := d.Tasks[0]; got.Change != Worse || got.Base.Mean() < big/2 {
		t.Errorf("%s, mean %v", got.Change, got.Base.Mean())
	}
	if _, err := json.Marshal(d); err != nil {
		t.Error(err)
	}
}

func TestDiffJSON(t *testing.T) {
	base, head := tries([]any{1}), tries([]any{0, VerifierFailed})
	base.JobName, base.Commit, head.JobName = "main", new("1a2b3c4"), "pr"
	got, err := Marshal(Compare(base, head))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"job_name": "main",` + "\n    " + `"commit": "1a2b3c4"`, `"job_name": "pr",` + "\n    " + `"commit": null`,
		`"broken": 1`, `"unknown": 0`, `"flaky": 0`, `"agent_name": null`, `"comparable_tasks": 1`, `"delta": {` + "\n      " + `"pass_rate": -1`,
		`"change": "broken"`, `"errors": [`, `"task_digest": "sha256:1"`, `"rewards": [`,
	} {
		if !strings.Contains(string(got), want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	if strings.Contains(string(got), `"results"`) {
		t.Error("the jobs' results are in it")
	}
	empty, err := json.Marshal(Compare(Job{}, Job{}))
	if err != nil || strings.Contains(string(empty), `"tasks":null`) || strings.Contains(string(empty), `"groups":null`) {
		t.Errorf("%v: %s", err, empty)
	}
}

// TestComparisonsAreSmall: a merge of a million trials holds 400,000 Attempts and 200,000
// TaskDiffs, so 8 bytes more in an Attempts are 3 MB.
func TestComparisonsAreSmall(t *testing.T) {
	if n := unsafe.Sizeof(Attempts{}); n > 72 {
		t.Errorf("an Attempts has %d bytes", n)
	}
	if n := unsafe.Sizeof(TaskDiff{}); n > 112 {
		t.Errorf("a TaskDiff has %d bytes", n)
	}
}

func manyTasks(n int) Job {
	var job Job
	for i := range n {
		try(&job, Key{Agent: "a", Dataset: "d", Task: fmt.Sprintf("task-%06d", i), Attempt: 1}, i%2)
	}
	return job
}

// BenchmarkCompare compares 100,000 trials on each side.
func BenchmarkCompare(b *testing.B) {
	base, head := manyTasks(100_000), manyTasks(100_000)
	slices.Reverse(head.Results.rows)
	for b.Loop() {
		if d := Compare(base, head); d.Counts[Same] != 100_000 {
			b.Fatal(d.Counts)
		}
	}
}
