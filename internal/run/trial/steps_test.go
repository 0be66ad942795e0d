package trial

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/judge"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/run/trial/judging"
	"github.com/org/rollout-action/internal/run/trial/record"
)

// names returns the names of steps.
func names(steps []step) string {
	var all []string
	for _, s := range steps {
		all = append(all, s.name)
	}
	return strings.Join(all, ", ")
}

const end = "teardown, close gateway, drop outcome, suggest Harbor, refusals"

func TestEachWayThroughATrialHasItsStepsInOrder(t *testing.T) {
	installed := agent.Agent{Name: "own", Install: "true", Execute: "true"}
	judges := []judging.Judge{{Judge: &judge.Judge{}}}
	after := func(p event.Phase) *visiting { return &visiting{Visit: Visit{After: p}} }
	for _, c := range []struct {
		name  string
		spec  Spec
		job   config.Job
		visit *visiting
		want  string
	}{
		{name: "a trial", spec: Spec{Agent: installed}, want: "environment_setup, agent_setup, agent_execution, keep artifacts, verifier, end watch, collect, " + end},
		{name: "without an install script", spec: Spec{Agent: agent.Agent{Name: "own"}}, want: "environment_setup, agent_execution, keep artifacts, verifier, end watch, collect, " + end},
		{name: "of nop", spec: Spec{Agent: agent.Agent{Name: agent.Nop}}, want: "environment_setup, keep artifacts, verifier, end watch, collect, " + end},
		{
			name: "without a verifier", spec: Spec{Agent: installed}, job: config.Job{Verifier: config.Verifier{Disable: true}},
			want: "environment_setup, agent_setup, agent_execution, keep artifacts, end watch, collect, " + end,
		},
		{
			name: "whose outcome is kept", spec: Spec{Agent: installed}, job: config.Job{Environment: config.Environment{Keep: config.KeepOutcome}},
			want: "environment_setup, agent_setup, agent_execution, keep artifacts, keep outcome, verifier, end watch, collect, " + end,
		},
		{
			name: "with judges, before which the logs are collected", spec: Spec{Agent: installed, Judges: judges},
			want: "environment_setup, agent_setup, agent_execution, keep artifacts, keep changes, verifier, collect, judging, end watch, " + end,
		},
		{
			name: "with judges of groups", spec: Spec{Agent: installed, GroupJudges: judges},
			want: "environment_setup, agent_setup, agent_execution, keep artifacts, keep changes, verifier, collect, judging, end watch, " + end,
		},
		{
			name: "a kept environment verified again", spec: Spec{Agent: installed, Again: &Again{}}, job: config.Job{Environment: config.Environment{Keep: config.KeepOutcome}},
			want: "environment_setup, keep artifacts, verifier, end watch, collect, " + end,
		},
		{name: "artifacts verified again", spec: Spec{Agent: installed, Again: &Again{Artifacts: fstest.MapFS{}}}, want: "environment_setup, keep artifacts, verifier, end watch, collect, " + end},
		{name: "verified again, with judges", spec: Spec{Agent: installed, Again: &Again{}, Judges: judges}, want: "environment_setup, keep artifacts, verifier, no judges, end watch, collect, " + end},
		{
			name: "state to collect", spec: Spec{Agent: installed, Task: &task.Task{Config: task.Config{Verifier: task.Verifier{Collect: []task.Collect{{Command: "true"}}}}}},
			want: "environment_setup, agent_setup, agent_execution, collect state, keep artifacts, verifier, end watch, collect, " + end,
		},
		{
			name: "state of services to collect, after all that needs main", spec: Spec{Agent: installed, Judges: judges, Task: &task.Task{Config: task.Config{Verifier: task.Verifier{Collect: []task.Collect{{Command: "true", Service: "db"}}}}}},
			want: "environment_setup, agent_setup, agent_execution, collect state, keep artifacts, keep changes, keep services, verifier, collect, judging, end watch, " + end,
		},
		{
			name: "artifacts of services", spec: Spec{Agent: installed, Task: &task.Task{Config: task.Config{Artifacts: []task.Artifact{{Source: "/data", Service: "db"}}}}},
			want: "environment_setup, agent_setup, agent_execution, keep artifacts, keep services, verifier, end watch, collect, " + end,
		},
		{name: "only judged", spec: Spec{Agent: installed, Judging: &judging.Pending{}, Judges: judges}, want: "judging"},
		{name: "a visit of the environment", spec: Spec{Agent: installed}, visit: after(event.EnvironmentSetup), want: "environment_setup, visit, end watch, " + end},
		{name: "a visit after the installation", spec: Spec{Agent: installed}, visit: after(event.AgentSetup), want: "environment_setup, agent_setup, visit, end watch, " + end},
		{name: "a visit after the agent", spec: Spec{Agent: installed}, visit: after(event.AgentExecution), want: "environment_setup, agent_setup, agent_execution, visit, end watch, " + end},
		{
			name: "a visit after the tests", spec: Spec{Agent: installed}, visit: after(event.Verifier),
			want: "environment_setup, agent_setup, agent_execution, verifier, collect, visit, end watch, " + end,
		},
		{name: "a visit of a kept environment", spec: Spec{Agent: installed, Again: &Again{}}, visit: after(event.AgentSetup), want: "environment_setup, visit, end watch, " + end},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.spec.Task == nil {
				c.spec.Task = &task.Task{}
			}
			x := &execution{agentRun: agentRun{plan: newPlan(c.spec, c.job)}}
			if got := names(x.steps(c.visit)); got != c.want {
				t.Errorf("it goes through\n%s, want\n%s", got, c.want)
			}
		})
	}
}

func TestAttemptsOfJudgesHaveTheirStepsInOrder(t *testing.T) {
	for _, c := range []struct {
		spec judge.Spec
		want string
	}{
		{judge.Spec{Agent: judge.Call}, "environment_setup, agent_execution, read verdict, close gateway, refusals"},
		{judge.Spec{Agent: "own", Placement: judge.InTrial}, "environment_setup, agent_execution, read verdict, close gateway, refusals"},
		{judge.Spec{Agent: "own", Placement: judge.InFresh}, "environment_setup, agent_execution, read verdict, end watch, teardown, close gateway, refusals"},
	} {
		j := &judgeRun{judge: judging.Judge{Judge: &judge.Judge{Spec: c.spec}}}
		if got := names(j.steps()); got != c.want {
			t.Errorf("in place %q: %s, want %s", j.judge.Place(), got, c.want)
		}
	}
}

func TestStepsAfterAPanicRun(t *testing.T) {
	x := testRun(t)
	var ran []string
	x.walk(t.Context(), []step{
		{"panics", func(context.Context) { panic("a bug") }},
		step{"not wanted", func(context.Context) { ran = append(ran, "not wanted") }}.when(x.NoError),
		{"last", func(context.Context) { ran = append(ran, "last") }},
	})
	if x.Trial.Error == nil || x.Trial.Error.Type != result.InternalError || !slices.Equal(ran, []string{"last"}) || x.Trial.Timestamps.EndedAt.IsZero() {
		t.Errorf("after a panic, %v ran; %+v", ran, x.Trial)
	}
}

// testRun returns a run of an agent that has only a record.
func testRun(t *testing.T) *agentRun {
	return &agentRun{Record: record.Record{Dir: t.TempDir(), Sink: func(event.Event) {}, Now: time.Now}}
}
