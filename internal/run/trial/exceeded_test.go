package trial_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
)

// A phase that ends its environment by exceeding a limit fails. That is not an infrastructure
// failure, and nothing is run again.
func TestExceededLimitsAreTheFailureOfWhatRan(t *testing.T) {
	memory, storage := environment.ErrOutOfMemory, environment.ErrOutOfStorage
	for _, tc := range []struct {
		script string
		why    error
		want   result.ErrorType
	}{
		{"install.sh", memory, result.AgentInstallFailed},
		{"execute.sh", memory, result.AgentExecutionFailed},
		{"execute.sh", storage, result.AgentExecutionFailed},
		{"test.sh", memory, result.VerifierFailed},
		{"test.sh", storage, result.AgentExecutionFailed}, // the node looks seconds later
	} {
		for _, policy := range []config.OnAgentFailure{config.SkipVerifier, config.RunVerifier} {
			t.Run(fmt.Sprintf("%s, %v, %v", tc.script, tc.why, policy), func(t *testing.T) {
				t.Parallel()
				tests := 0
				o := places[0].run(t, story{
					agent: agent.Agent{Install: "true", Execute: "true"},
					job:   func(j *config.Job) { j.Verifier.OnAgentFailure = policy },
					hooks: hooks{before: func(_ context.Context, c call) error {
						if c.script == "test.sh" {
							tests++
						}
						if c.script == tc.script {
							return &environment.Error{Kind: environment.KindLost, Err: fmt.Errorf("the pod was ended: %w", tc.why)}
						}
						return nil
					}},
				})
				o.check(t, want{err: tc.want, says: []string{"exceeded its limits", tc.why.Error()}})
				checkRetries(t, o)
				if tc.script != "test.sh" && tests > 0 {
					t.Error("the verifier was tried in an environment that is gone")
				}
			})
		}
	}
}
