package trial_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
)

func TestCancel(t *testing.T) {
	const wait = "echo begun >/logs/agent/log.txt; echo begun; sleep 1000\n"
	whenBegun := func(cancel func()) hooks {
		return hooks{said: func(_ call, text string) {
			if strings.Contains(text, "begun") {
				cancel()
			}
		}}
	}
	inPhase := func(phase event.Phase, cancel func()) event.Sink {
		return func(e event.Event) {
			if e.Phase == phase {
				cancel()
			}
		}
	}
	everywhere(t, func(t *testing.T, p place) {
		for _, tc := range []struct {
			name  string
			story func(cancel func()) story
			want  want
			logs  bool // of the agent are kept
		}{
			{
				"before it began",
				func(cancel func()) story { cancel(); return story{agent: script("true")} },
				want{err: result.Cancelled, says: []string{"during environment setup"}}, false,
			},
			{
				"while its image is built",
				func(cancel func()) story {
					time.AfterFunc(time.Second, cancel)
					return story{agent: script("true"), files: dockerfile("FROM {{image}}\nCOPY nonce /nonce\nRUN sleep 1000\n")}
				},
				want{err: result.Cancelled, says: []string{"during environment setup"}}, false,
			},
			{
				"while the agent is installed",
				func(cancel func()) story {
					return story{agent: agent.Agent{Install: wait, Execute: "true"}, hooks: whenBegun(cancel)}
				},
				want{err: result.Cancelled, says: []string{"during agent installation"}}, true,
			},
			{
				"while the agent runs, which is not verified although failed agents are",
				func(cancel func()) story {
					return story{agent: script("setsid nohup " + grow + " >/dev/null 2>&1 &\n" + wait), hooks: whenBegun(cancel), job: verifyAnyway}
				},
				want{err: result.Cancelled, says: []string{"during agent execution"}}, true,
			},
			{
				"while it is verified",
				func(cancel func()) story {
					return story{agent: script("true"), files: tests(reward1 + wait), hooks: whenBegun(cancel)}
				},
				want{err: result.Cancelled, says: []string{"during verification"}}, true,
			},
			{
				"after it was verified, which keeps its reward",
				func(cancel func()) story {
					return story{agent: script("echo begun >/logs/agent/log.txt"), emit: inPhase(event.Collect, cancel)}
				},
				want{reward: "1"}, true,
			},
			{
				"while its environment is removed, which is removed all the same",
				func(cancel func()) story {
					return story{agent: script("echo begun >/logs/agent/log.txt"), emit: inPhase(event.Teardown, cancel)}
				},
				want{reward: "1"}, true,
			},
		} {
			t.Run(tc.name, func(t *testing.T) {
				t.Parallel()
				// On a machine that is busy with other tests, the graces of a cancelled trial may
				// end before the running command has been killed. Then the logs may be lost; but
				// not every time.
				const tries, graceOfCommand = 5, 1500 * time.Millisecond
				for n := 1; ; n++ {
					o, took := cancelled(t, p, tc.story)
					if took > graceOfCommand && n < tries {
						t.Logf("ending the trial took %v: trying again", took)
						continue
					}
					o.check(t, tc.want)
					if tc.logs && o.file(t, "logs/agent/log.txt") != "begun\n" {
						t.Error("the logs are lost")
					}
					if len(o.left) > 0 || len(o.Trial.Warnings) > 0 {
						t.Errorf("left: %+v, warnings: %q", o.left, o.Trial.Warnings)
					}
					return
				}
			})
		}
	})
}

// cancelled runs a story that cancels its trial, and returns how long the trial took from then on.
func cancelled(t *testing.T, p place, tell func(cancel func()) story) (outcome, time.Duration) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var once sync.Once
	var at time.Time
	s := tell(func() { once.Do(func() { at = time.Now(); stop() }) })
	s.ctx = ctx
	o := p.run(t, s)
	took := time.Since(at)
	if at.IsZero() || took > patience {
		t.Errorf("it took %v from the cancel at %v", took, at)
	}
	return o, took
}

func TestCancelledTrialsThatNeverBeganHaveNoTimes(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o := fakePlace.run(t, story{agent: script("true"), ctx: ctx, hooks: hooks{before: func(_ context.Context, c call) error {
		t.Errorf("%s was called", c.op)
		return nil
	}}})
	o.check(t, want{err: result.Cancelled})
	if ts := o.Trial.Timestamps; ts.EnvironmentSetupStartedAt != nil || o.Trial.Durations.EnvironmentSetupSec != nil {
		t.Errorf("%+v", ts)
	}
}

// sluggish returns hooks that make an environment slow once it is cancelled.
func sluggish(kill time.Duration, cancel func()) hooks {
	return hooks{before: func(ctx context.Context, c call) error {
		switch c.op {
		case "exec":
			cancel()
			<-ctx.Done()
			time.Sleep(kill)
			return ctx.Err()
		case "copyFrom", "destroy":
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}}
}

func TestGracesCountFromTheCancel(t *testing.T) {
	t.Parallel()
	for patience, kills := range map[int][]time.Duration{0: {0, time.Second, 1400 * time.Millisecond}, 10: {0, 14 * time.Second}} {
		for _, kill := range kills {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				begun := time.Now() // the fake environment takes no time at all
				o := fakePlace.run(t, story{agent: script("true"), ctx: ctx, patient: patience, leaves: true, hooks: sluggish(kill, cancel)})
				if took, most := time.Since(begun), 4*time.Second*time.Duration(max(1, patience)); took != most {
					t.Errorf("ended %v after the cancel instead of %v, although killing took %v", took, most, kill)
				}
				o.check(t, want{err: result.Cancelled})
				contains(t, "warnings", strings.Join(o.Trial.Warnings, "\n"), "/logs could not be copied whole", "environment_teardown_failed")
			})
		}
	}
}

func TestSecondSignalEndsTheGraces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		hard, kill := context.WithCancel(context.Background())
		defer kill()
		begun := time.Now()
		time.AfterFunc(time.Second, kill)
		o := fakePlace.run(t, story{agent: script("true"), ctx: ctx, hard: hard, leaves: true, hooks: sluggish(0, cancel)})
		if took := time.Since(begun); took != time.Second {
			t.Errorf("ended after %v, want at once", took)
		}
		o.check(t, want{err: result.Cancelled})
		if text := strings.Join(o.Trial.Warnings, "\n"); !strings.Contains(text, "/logs could not be copied whole: the job was cancelled") {
			t.Errorf("the logs are given up for another reason: %s", text)
		}
	})
}

func TestStuckEnvironmentsAreEndedAfterCancel(t *testing.T) {
	t.Parallel()
	for _, preserve := range []config.Preserve{config.PreserveNever, config.PreserveAlways} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			ended := make(chan struct{})
			begun := time.Now()
			o := fakePlace.run(t, story{
				agent: script("true"), ctx: ctx,
				job: func(job *config.Job) { job.Environment.PreserveEnv = preserve },
				hooks: hooks{before: func(_ context.Context, c call) error {
					switch c.op {
					case "exec": // deaf
						cancel()
						<-ended
						return &environment.Error{Kind: environment.KindLost, Err: context.Canceled}
					case "stop", "destroy":
						close(ended) // panics when it is ended twice
					case "copyFrom":
						return broken(environment.KindLost, false)
					}
					return nil
				}},
			})
			if took := time.Since(begun); took != 1500*time.Millisecond {
				t.Errorf("it was ended after %v", took)
			}
			o.check(t, want{err: result.Cancelled, says: []string{"during agent execution"}})
			if kept := preserve == config.PreserveAlways; o.Trial.Environment.Preserved != kept || len(o.left) > 0 != kept {
				t.Errorf("%s: %+v, %+v", preserve, o.Trial.Environment, o.left)
			}
		})
	}
}

// unknown is a context of a type that the standard library does not know, so waiting for its end
// needs a goroutine.
type unknown struct{ context.Context }

func (unknown) Value(any) any { return nil }

// A job has many trials and one context: each must remove its callbacks. A goroutine that waits
// after the end of the test is a deadlock to synctest.
func TestTrialsLeaveNoGoroutines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		_ = cancel // never: that is the point
		fakePlace.run(t, story{agent: script("true"), ctx: unknown{ctx}}).check(t, want{reward: "1"})
	})
}

func TestCancelWhileStartingOver(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	o := fakePlace.run(t, story{
		agent: script("true"), ctx: ctx,
		job: func(job *config.Job) {
			job.Retry = config.Retry{MaxAttempts: 9, InitialDelayMs: 3600_000, MaxDelayMs: 3600_000, Multiplier: 1}
		},
		hooks: hooks{before: func(_ context.Context, c call) error {
			if c.op == "create" {
				return broken(environment.KindLost, false)
			}
			return nil
		}},
		emit: func(e event.Event) {
			if e.Kind == event.Retrying {
				cancel()
			}
		},
	})
	o.check(t, want{err: result.Cancelled, says: []string{"environment setup"}})
	checkRetries(t, o, "trial")
}
