package trial_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
)

func TestBrokenTasksStartNothing(t *testing.T) {
	t.Parallel()
	oracle := agent.Agent{Name: agent.Oracle}
	for _, tc := range []struct {
		name  string
		story story
		want  want
	}{
		{
			"a task without a test script", story{agent: script("true"), files: map[string]string{"tests/test.sh": "-"}},
			want{err: result.TaskInvalid, says: []string{"tests", "missing"}, detail: []string{"tests"}},
		},
		{
			"a task with more than one problem", story{agent: script("true"), files: map[string]string{"tests/test.sh": "-", "instruction.md": "-"}},
			want{err: result.TaskInvalid, says: []string{"instruction.md", "rollout validate"}, detail: []string{"instruction.md", "tests"}},
		},
		{
			"a task without any image", story{agent: script("true"), files: map[string]string{"environment/README": "?"}},
			want{err: result.TaskInvalid, says: []string{"environment/Dockerfile", "docker_image", "add one of them"}},
		},
		{
			"a task that the oracle cannot solve", story{agent: oracle},
			want{err: result.TaskInvalid, says: []string{"solution/solve.sh", "add it, or leave this task out"}},
		},
		{
			"a task that is not there",
			story{agent: script("true"), files: map[string]string{"task.toml": "-", "instruction.md": "-", "tests/test.sh": "-"}},
			want{err: result.TaskNotFound, says: []string{"there is no task at", "puzzle", "correct the path"}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.story.hooks.before = func(_ context.Context, c call) error {
				t.Errorf("%s was called", c.op)
				return nil
			}
			o := fakePlace.run(t, tc.story)
			o.check(t, tc.want)
			if o.Trial.Environment.ID != "" || o.has("logs") {
				t.Error("something was started")
			}
		})
	}
}

func TestPanicFailsOneTrial(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"pull", "create", "exec", "copyTo", "copyFrom", "destroy"} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			var gone atomic.Bool
			o := fakePlace.run(t, story{
				agent:  script("echo hi >/logs/agent/log.txt"),
				leaves: op == "destroy",
				hooks: hooks{before: func(_ context.Context, c call) error {
					if c.op == "destroy" {
						gone.Store(true)
					}
					if c.op == op {
						panic("a bug in " + op)
					}
					return nil
				}},
			})
			w := want{err: result.InternalError, says: []string{"a bug in " + op, "please report this"}, detail: []string{"goroutine", "hooks_test.go"}}
			if op == "destroy" {
				w.reward = "1" // was there already
			}
			o.check(t, w)
			if made := op != "pull" && op != "create"; made != gone.Load() {
				t.Errorf("destroyed: %v", gone.Load())
			}
			if kept := op == "exec" || op == "copyTo"; kept && !o.has("logs/agent") {
				t.Error("the logs are lost")
			}
		})
	}
}

func TestPanicInBuildFailsWaitingTrials(t *testing.T) {
	t.Parallel()
	s := story{agent: script("true"), hooks: hooks{before: func(_ context.Context, c call) error {
		if c.op == "pull" {
			panic("a bug")
		}
		return nil
	}}}
	for _, o := range fakePlace.newScene(t, s).together(s, 3) {
		o.check(t, want{err: result.InternalError})
	}
}

func TestTeardownFailures(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		o := p.run(t, story{
			agent: script("true"), leaves: true,
			hooks: fails("destroy", broken(environment.KindTeardown, true)),
		})
		o.check(t, want{err: result.EnvironmentTeardownFailed, reward: "1", says: []string{"coughed", "rollout clean"}})
		checkRetries(t, o, "destroy")
		if !o.Trial.Completed() || o.Trial.Failed() {
			t.Error("the reward counts all the same")
		}
	})
}

func TestLostEnvironments(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		t.Run("before the agent begins, the trial starts over", func(t *testing.T) {
			t.Parallel()
			var lost atomic.Int64
			o := p.run(t, story{
				agent: agent.Agent{Install: "echo installing", Execute: "true"},
				hooks: hooks{before: func(_ context.Context, c call) error {
					if c.script == "install.sh" && lost.Add(1) == 1 {
						return p.lose(c.in, c.env.ID())
					}
					return nil
				}},
			})
			o.check(t, want{reward: "1"})
			checkRetries(t, o, "trial")
			if o.Trial.Durations.AgentSetupSec == nil || len(o.Trial.Warnings) > 0 {
				t.Errorf("%+v", o.Trial)
			}
		})
		t.Run("again and again, the trial gives up", func(t *testing.T) {
			t.Parallel()
			o := p.run(t, story{
				agent: agent.Agent{Install: "true", Execute: "true"},
				hooks: hooks{before: func(_ context.Context, c call) error {
					if c.script == "install.sh" {
						return p.lose(c.in, c.env.ID())
					}
					return nil
				}},
			})
			o.check(t, want{err: result.EnvironmentLost, says: []string{"during agent installation", "run the job again"}})
			checkRetries(t, o, "trial")
		})
		t.Run("once the agent has begun, nothing is repeated", func(t *testing.T) {
			t.Parallel()
			var starts atomic.Int64
			o := p.run(t, story{
				agent: script("echo begun; sleep 1000"),
				hooks: hooks{before: func(_ context.Context, c call) error {
					if c.script == "execute.sh" {
						starts.Add(1)
					}
					return nil
				}, said: func(c call, text string) {
					if strings.Contains(text, "begun") {
						go func() { _ = p.lose(c.in, c.env.ID()) }()
					}
				}},
			})
			o.check(t, want{err: result.EnvironmentLost, says: []string{"during agent execution", "run the job again"}})
			checkRetries(t, o)
			if starts.Load() != 1 {
				t.Errorf("%d starts", starts.Load())
			}
		})
	})
}

func TestResultKeepsEarlierExecutions(t *testing.T) {
	t.Parallel()
	var installs, destroys atomic.Int64
	o := fakePlace.run(t, story{
		agent: agent.Agent{Install: "echo x", Execute: "true"}, leaves: true,
		hooks: hooks{before: func(_ context.Context, c call) error {
			switch {
			case c.script == "install.sh" && installs.Add(1) == 1:
				return broken(environment.KindLost, false)
			case c.op == "destroy" && destroys.Add(1) == 1:
				return broken(environment.KindTeardown, false)
			}
			return nil
		}},
	})
	o.check(t, want{reward: "1"})
	checkRetries(t, o, "trial")
	contains(t, "warnings", strings.Join(o.Trial.Warnings, "\n"), "environment_teardown_failed", "rollout clean")
}

func TestTransientFailuresAreRetried(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[string]int{}
	var retrying []string
	o := fakePlace.run(t, story{
		agent: script("true"),
		hooks: hooks{before: func(_ context.Context, c call) error {
			mu.Lock()
			defer mu.Unlock()
			if seen[c.op]++; seen[c.op] == 1 && c.op != "exec" {
				return broken(environment.KindUnavailable, true)
			}
			return nil
		}},
		emit: func(e event.Event) {
			if e.Kind == event.Retrying {
				retrying = append(retrying, e.Message)
			}
		},
	})
	o.check(t, want{reward: "1"})
	checkRetries(t, o, "pull", "create", "copy", "copy", "destroy")
	if len(retrying) != 5 {
		t.Errorf("events: %q", retrying)
	}
}

func TestUnreachableProviders(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		op    string
		build bool
		want  result.ErrorType
	}{
		{"pull", false, result.EnvironmentImagePullFailed},
		{"build", true, result.EnvironmentStartFailed},
		{"create", false, result.EnvironmentStartFailed},
		{"exec", false, result.EnvironmentLost},
		{"copyTo", false, result.EnvironmentLost},
	} {
		t.Run(tc.op, func(t *testing.T) {
			t.Parallel()
			s := story{agent: agent.Agent{Execute: "true"}, hooks: fails(tc.op, broken(environment.KindUnavailable, false))}
			if tc.build {
				s.files = dockerfile("FROM {{image}}\n")
			}
			fakePlace.run(t, s).check(t, want{err: tc.want, says: []string{"coughed", "see that the provider works"}})
		})
	}
}

// TestMachineFaultsAreInternalErrors: an error of this machine while it reads a task's files is
// neither the task's fault nor the verifier's, and is retried until the agent begins.
func TestMachineFaultsAreInternalErrors(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"pull", "build", "create", "copyTo", "exec"} {
		for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENOSPC} {
			t.Run(op+" "+errno.Error(), func(t *testing.T) {
				t.Parallel()
				err := &environment.Error{Kind: environment.KindCopy, Err: fmt.Errorf("read tests/test.sh: %w", environment.MarkMachineError(errno))}
				s := story{agent: agent.Agent{Execute: "true"}, hooks: fails(op, err)}
				if op == "build" {
					s.files = dockerfile("FROM {{image}}\n")
				}
				o := fakePlace.run(t, s)
				o.check(t, want{err: result.InternalError, says: []string{"this machine failed during", errno.Error()}})
				if !errors.Is(o.MachineFault, errno) {
					t.Errorf("MachineFault is %v", o.MachineFault)
				}
				if tried := len(o.Trial.Retries); (tried > 0) != (op == "pull" || op == "build" || op == "create") {
					t.Errorf("it was tried again: %+v", o.Trial.Retries)
				}
			})
		}
	}
	// An agent that has filled its own disk has not broken the machine's.
	full := &environment.Error{Kind: environment.KindCopy, Err: syscall.ENOSPC}
	o := fakePlace.run(t, story{agent: agent.Agent{Execute: "true"}, hooks: fails("copyTo", full)})
	if o.check(t, want{err: result.VerifierFailed}); o.MachineFault != nil {
		t.Errorf("MachineFault is %v", o.MachineFault)
	}
}

func TestUnknownFailures(t *testing.T) {
	t.Parallel()
	o := fakePlace.run(t, story{agent: script("true"), hooks: fails("exec", errors.New("what is this?"))})
	o.check(t, want{err: result.InternalError, says: []string{"during agent execution", "what is this?"}})
}
