package report

import (
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
		attempts := []Attempt{{Number: 1, Trial: result.PackAll([]result.Trial{*trial})[0]}}
		return Case{Agent: agent, Task: task, Attempts: attempts, State: state(attempts)}
	}
	skipped := Case{Agent: "a", Task: "s", Attempts: []Attempt{{}}, State: Skipped}
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
