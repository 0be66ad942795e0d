package trial_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/testenv"
	"github.com/org/rollout-action/providers/docker"
)

// once returns a script that fails when it is run twice in one environment.
func once(name string) string {
	return fmt.Sprintf("echo x >> /%[1]s; [ $(wc -l < /%[1]s) = 1 ] || exit 9\n", name)
}

// The engine's failures are never an agent's or a verifier's, change no reward, and make no command
// run twice.
func TestTrialsOnAFlakyEngine(t *testing.T) {
	testenv.Long(t, "trials on an engine that fails now and then")
	stories := map[string]struct {
		story
		reward float64
		fails  result.ErrorType // besides failures of the infrastructure
	}{
		"a solution": {reward: 1, story: story{
			agent: agent.Agent{Name: "solver", Install: once("installed"), Execute: once("executed") + "seq 1 20000; echo yes > /answer"},
			files: map[string]string{"tests/test.sh": once("tested") + `[ -e /installed ] && [ -e /executed ] || exit 8
				[ "$(cat /answer)" = yes ]; echo $((1 - $?)) > /logs/verifier/reward.txt`},
		}},
		"no solution": {reward: 0, story: story{
			agent: agent.Agent{Name: "idler", Execute: once("executed")},
			files: map[string]string{"tests/test.sh": once("tested") + `[ "$(cat /answer)" = yes ]; echo $((1 - $?)) > /logs/verifier/reward.txt`},
		}},
		"a timeout": {reward: 0, fails: result.AgentExecutionTimeout, story: story{
			agent: agent.Agent{Name: "sleeper", Execute: once("executed") + "(setsid bash -c 'while :; do echo yes > /answer; sleep 0.1; done' &) ; sleep 600"},
			toml:  "[agent]\ntimeout_sec = 1\n",
			job:   func(j *config.Job) { j.Verifier.OnAgentFailure = config.RunVerifier },
			files: map[string]string{"tests/test.sh": once("tested") + `rm -f /answer; sleep 0.5; [ "$(cat /answer)" = yes ]; echo $((1 - $?)) > /logs/verifier/reward.txt`},
		}},
	}
	for _, rate := range []float64{0.05, 0.3} {
		t.Run(fmt.Sprintf("%g", rate), func(t *testing.T) {
			flaky := testenv.NewFlaky(t, uint64(rate*100))
			provider, err := docker.New(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer provider.Close()
			place := dockerPlace
			place.open = func(testing.TB) environment.Provider { return provider }
			trials := 10
			if testing.Short() {
				trials = 3
			}
			var mu sync.Mutex
			whole := 0
			var all sync.WaitGroup
			for name, s := range stories {
				s.leaves = true // a removal may fail for good
				change := s.job
				s.job = func(j *config.Job) {
					j.Retry = config.Retry{MaxAttempts: 3, InitialDelayMs: 10, MaxDelayMs: 100, Multiplier: 2}
					if change != nil {
						change(j)
					}
				}
				sc := place.newScene(t, s.story)
				loaded := s.task(t, place)
				for n := range trials {
					all.Go(func() {
						o := sc.run(s.story, loaded, n+1)
						mu.Lock()
						defer mu.Unlock()
						failure := o.Trial.Error
						switch {
						case failure == nil || failure.Type == s.fails || failure.Type == result.EnvironmentTeardownFailed:
							if o.Trial.Reward == nil || *o.Trial.Reward != s.reward {
								t.Errorf("%s %d: reward %v, want %g (%+v)\n%s", name, n, o.Trial.Reward, s.reward, failure, strings.Join(o.Trial.Warnings, "\n"))
							}
							whole++
						case !failure.Type.Infrastructure():
							t.Errorf("%s %d: %+v\n%s\n%+v", name, n, failure, o.Detail, o.Trial.Retries)
						default:
							t.Logf("%s %d: %+v", name, n, failure)
						}
					})
				}
			}
			flaky.Fail(rate, "")
			all.Wait()
			flaky.Fail(0, "")
			t.Logf("%d of %d trials are whole; failed requests: %v", whole, trials*len(stories), flaky.Failed())
			if len(flaky.Failed()) < 5 {
				t.Errorf("hardly anything failed: %v", flaky.Failed())
			}
			if whole < trials*len(stories)/2 {
				t.Errorf("%d of %d trials are whole", whole, trials*len(stories))
			}
			listed, err := provider.List(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range listed {
				if l.Labels.Owner == environment.Self() && strings.HasPrefix(l.Labels.Job, "(") {
					t.Logf("a killer is there: %s", l.ID)
				}
			}
		})
	}
}
