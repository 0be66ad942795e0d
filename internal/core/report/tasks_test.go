package report

import (
	"cmp"
	"runtime"
	"slices"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
)

func TestTasksOfAnAgentSayWhichDidNotRun(t *testing.T) {
	for want, tasks := range map[string]AgentTasks{
		"7 of 7 tasks did not run":                    {Total: 7, NotRun: 7},
		"3 of 7 tasks passed, 1 flaky, 2 did not run": {Passed: 3, Total: 7, Flaky: 1, NotRun: 2},
		"0 of 7 tasks passed":                         {Total: 7},
		"7 of 7 tasks have no result: 5 did not run":  {Total: 7, NotRun: 5, NoResult: 2},
		"1 of 1 task has no result":                   {Total: 1, NoResult: 1},
		"1 of 7 tasks passed, 2 without a result":     {Passed: 1, Total: 7, NoResult: 2},
		"0 of 0 tasks passed":                         {},
	} {
		if got := tasks.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	agents := PassedTasks([]Case{{Agent: "a", State: Skipped}, {Agent: "a", State: Passed}, {Agent: "b", State: Skipped}})
	if agents[0].String() != "1 of 2 tasks passed, 1 did not run" || agents[1].String() != "1 of 1 task did not run" {
		t.Errorf("%v", agents)
	}
}

func TestHeadlineSaysThatNothingRan(t *testing.T) {
	with := func(agent, task string, kind result.ErrorType, began bool) Case {
		trial := &result.Trial{Key: result.Key{Agent: agent, Task: task, Attempt: 1}, Error: &result.Error{Type: kind}}
		if began {
			trial.Durations.AgentExecutionSec = new(1.0)
		}
		tried := result.PackAll([]result.Trial{*trial})
		return Case{Agent: agent, Task: task, tried: tried, State: state(tried)}
	}
	skipped := Case{Agent: "a", Task: "s", tried: make([]result.Packed, 1), State: Skipped}
	build, stopped := with("a", "b", result.EnvironmentBuildFailed, false), with("a", "c", result.Cancelled, true)
	for want, cases := range map[string][]Case{
		"3 of 3 tasks did not run":                     {skipped, build, with("a", "c", result.Cancelled, false)},
		"2 of 2 tasks have no result: 1 did not run":   {skipped, stopped},
		"0 of 2 tasks passed, 1 did not run":           {build, with("a", "d", result.AgentExecutionTimeout, true)},
		"0 of 2 tasks passed, 1 without a result":      {with("a", "d", result.AgentInstallFailed, false), with("a", "l", result.EnvironmentLost, true)},
		"nothing ran, of 2 agents and 1 task":          {build, with("z", "b", result.EnvironmentImagePullFailed, false)},
		"no task has a result, of 2 agents and 1 task": {stopped, with("z", "c", result.InternalError, false)},
	} {
		if got := (Input{}).Headline(cases); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := (Input{Diff: &result.Diff{}}).Headline(cases); got != want && want[0] != '0' {
			t.Errorf("with a baseline: got %q, want %q", got, want)
		}
	}
}

// The files of a task that a reader should open have other names in tasks of terminal-bench.
func TestFileOfACase(t *testing.T) {
	failed := func(kind result.ErrorType, format string) Case {
		trial := &result.Trial{TaskFormat: format}
		trial.Reward = new(0.0)
		if kind != "" {
			trial.Reward = nil
			trial.Error = &result.Error{Type: kind}
		}
		return Case{Path: "evals/a", tried: []result.Packed{{}, result.PackAll([]result.Trial{*trial})[0]}}
	}
	for _, tc := range []struct {
		of   Case
		want string
	}{
		{Case{Path: "evals/a"}, "evals/a/task.toml"},
		{failed("", ""), "evals/a/instruction.md"},
		{failed(result.VerifierFailed, "harbor"), "evals/a/tests/test.sh"},
		{failed(result.EnvironmentBuildFailed, ""), "evals/a/environment/Dockerfile"},
		{failed("", "terminal-bench"), "evals/a/task.yaml"},
		{failed(result.VerifierRewardMissing, "terminal-bench"), "evals/a/run-tests.sh"},
		{failed(result.EnvironmentBuildFailed, "terminal-bench"), "evals/a/Dockerfile"},
		{Case{}, ""},
	} {
		if got := tc.of.File(); got != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
}

// TestCasesHaveTheirAttemptsInOrder has plans in several orders, and attempts that are missing from
// the plan or have no result.
func TestCasesHaveTheirAttemptsInOrder(t *testing.T) {
	key := func(task string, attempt int) result.Key {
		return result.Key{Agent: "a", Dataset: "d", Task: task, Attempt: attempt}
	}
	for name, keys := range map[string][]result.Key{
		"task by task":       {key("s", 1), key("s", 2), key("s", 3), key("t", 1), key("t", 2), key("t", 3)},
		"attempt by attempt": {key("s", 1), key("t", 1), key("s", 2), key("t", 2), key("s", 3), key("t", 3)},
		"backwards":          {key("t", 3), key("t", 2), key("t", 1), key("s", 3), key("s", 2), key("s", 1)},
		"with gaps":          {key("s", 1), key("s", 3), key("t", 2), key("t", 5), key("s", 2)},
	} {
		for _, missing := range []int{-1, 0, 2, len(keys) - 1} {
			in, want := Input{Plan: result.Plan{Trials: result.KeysOf(keys...)}}, map[result.Key]bool{}
			var trials []result.Trial
			for i, k := range keys {
				if want[k] = i != missing; i != missing {
					trials = append(trials, result.Trial{Key: k, Reward: new(float64(i))})
				}
			}
			in.Trials = result.PackAll(trials)
			for _, c := range Cases(in) {
				last := 0
				for _, a := range c.Attempts() {
					there, planned := want[c.Key(a)]
					if !planned || there != a.Trial.There() || there && a.Trial.Key() != c.Key(a) || a.Number <= last {
						t.Errorf("%s without %d: attempt %d after %d has %v", name, missing, a.Number, last, a.Trial.Key())
					}
					last = a.Number
					delete(want, c.Key(a))
				}
			}
			if len(want) > 0 {
				t.Errorf("%s without %d: no case has %v", name, missing, want)
			}
		}
	}
	if in := (Input{Plan: result.Plan{Trials: result.KeysOf(key("s", 1), key("s", 2))}, Trials: result.PackAll([]result.Trial{{Key: key("s", 1)}, {Key: key("s", 2)}})}); &Cases(in)[0].tried[0] != &in.Trials[0] {
		t.Error("a case has a copy of its trials")
	}
}

// TestACaseOfManyAttemptsIsMadeInLinearTime has the attempts of a shard, which has every second one
// of a task, and attempts in no order.
func TestACaseOfManyAttemptsIsMadeInLinearTime(t *testing.T) {
	const n = 5000
	for name, number := range map[string]func(i int) int{
		"gaps": func(i int) int { return 2*i + 1 }, "backwards": func(i int) int { return n - i }, "mixed": func(i int) int { return 1 + i*7%n },
	} {
		in := Input{}
		for i := range n {
			in.Plan.Trials.Append(result.Key{Agent: "a", Dataset: "d", Task: "t", Attempt: number(i)})
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		cases := Cases(in)
		runtime.ReadMemStats(&after)
		if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 1000*n {
			t.Errorf("%s: %d bytes are allocated for %d attempts", name, allocated, n)
		}
		all := cases[0].Attempts()
		if len(cases) != 1 || len(all) != n || !slices.IsSortedFunc(all, func(a, b Attempt) int { return cmp.Compare(a.Number, b.Number) }) {
			t.Errorf("%s: %d cases, the first with %d attempts", name, len(cases), len(all))
		}
	}
}
