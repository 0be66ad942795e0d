package report

import "testing"

func TestTasksOfAnAgentSayWhichDidNotRun(t *testing.T) {
	for want, tasks := range map[string]AgentTasks{
		"7 of 7 tasks did not run":                    {Total: 7, NotRun: 7},
		"3 of 7 tasks passed, 1 flaky, 2 did not run": {Passed: 3, Total: 7, Flaky: 1, NotRun: 2},
		"0 of 7 tasks passed":                         {Total: 7},
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
