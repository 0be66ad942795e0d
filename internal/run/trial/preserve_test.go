package trial_test

import (
	"context"
	"slices"
	"testing"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
)

func TestPreserve(t *testing.T) {
	never, always, onFailure := config.PreserveNever, config.PreserveAlways, config.PreserveOnFailure
	everywhere(t, func(t *testing.T, p place) {
		for _, tc := range []struct {
			name  string
			story story
			want  want
			keeps []config.Preserve
		}{
			{"with a reward of 1", story{agent: script("true")}, want{reward: "1"}, []config.Preserve{always}},
			{"with a reward above 1", story{agent: script("true"), files: tests("echo 7 >/logs/verifier/reward.txt\n")}, want{reward: "7"}, []config.Preserve{always}},
			{"with a reward below 1", story{agent: script("true"), files: tests("echo 0.99 >/logs/verifier/reward.txt\n")}, want{reward: "0.99"}, []config.Preserve{always, onFailure}},
			{"with an error", story{agent: script("exit 3")}, want{err: result.AgentExecutionFailed}, []config.Preserve{always, onFailure}},
			{"with an error and a reward of 1", story{agent: script("exit 3"), job: verifyAnyway}, want{err: result.AgentExecutionFailed, reward: "1"}, []config.Preserve{always, onFailure}},
			{"that is not verified", story{agent: script("true"), job: func(job *config.Job) { job.Verifier.Disable = true }}, want{}, []config.Preserve{always}},
		} {
			for _, policy := range []config.Preserve{never, always, onFailure} {
				if p.kernel && tc.want.reward != "0.99" { // one outcome shows that stopping and keeping work
					continue
				}
				t.Run("a trial "+tc.name+" under "+string(policy), func(t *testing.T) {
					t.Parallel()
					s := tc.story
					s.job = func(job *config.Job) {
						if tc.story.job != nil {
							tc.story.job(job)
						}
						job.Environment.PreserveEnv = policy
					}
					o := p.run(t, s)
					o.check(t, tc.want)
					checkKept(t, o, slices.Contains(tc.keeps, policy))
				})
			}
		}
	})
}

// checkKept checks that a stopped environment exists and is recorded in the result, or neither.
func checkKept(t testing.TB, o outcome, kept bool) {
	t.Helper()
	if o.Trial.Environment.Preserved != kept {
		t.Errorf("result: %+v", o.Trial.Environment)
	}
	switch {
	case !kept && len(o.left) > 0:
		t.Errorf("left: %+v", o.left)
	case kept && (len(o.left) != 1 || !o.left[0].Kept || o.left[0].ID != o.Trial.Environment.ID):
		t.Errorf("want %s kept, have %+v", o.Trial.Environment.ID, o.left)
	}
}

func TestPreserveOfCancelledTrials(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		for policy, kept := range map[config.Preserve]bool{config.PreserveAlways: true, config.PreserveOnFailure: false} {
			t.Run(string(policy), func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				o := p.run(t, story{
					agent: script("sleep 1000"), ctx: ctx,
					job: func(job *config.Job) { job.Environment.PreserveEnv = policy },
					emit: func(e event.Event) {
						if e.Phase == event.AgentExecution {
							cancel()
						}
					},
				})
				o.check(t, want{err: result.Cancelled})
				checkKept(t, o, kept)
			})
		}
	})
}

func TestPreserveOfLostEnvironments(t *testing.T) {
	t.Parallel()
	for _, policy := range []config.Preserve{config.PreserveAlways, config.PreserveOnFailure} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			o := fakePlace.run(t, story{
				agent: script("true"),
				job:   func(job *config.Job) { job.Environment.PreserveEnv = policy },
				hooks: hooks{before: func(_ context.Context, c call) error {
					switch c.op {
					case "exec":
						return broken(environment.KindLost, false)
					case "stop":
						return broken(environment.KindTeardown, false)
					}
					return nil
				}},
			})
			o.check(t, want{err: result.EnvironmentLost})
			if len(o.Trial.Warnings) > 0 {
				t.Errorf("what is lost cannot be kept, which is no news: %q", o.Trial.Warnings)
			}
			checkKept(t, o, false)
		})
	}
}
