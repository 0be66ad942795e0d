package modal

import (
	"os"
	"testing"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/environment/environmenttest"
	"github.com/org/rollout-action/internal/test/testenv"
)

// lacks are the optional interfaces that Modal has nothing for.
var lacks = []string{"ImageStore", "Restorer", "OutcomeKeeper", "BaseReporter", "Snapshotter", "ChangeReporter", "ServiceProvider"}

// TestLive runs the contract in the account whose token is in the environment. It costs money.
func TestLive(t *testing.T) {
	if os.Getenv("ROLLOUT_TEST_LIVE") != Name {
		testenv.Lacks(t, Name, "ROLLOUT_TEST_LIVE=modal and a token of Modal")
	}
	backdoor, err := New(t.Context(), map[string]any{"app_name": "rollout-test"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = backdoor.Close() })
	environmenttest.Run(t, environmenttest.Options{
		New: func(t testing.TB) environment.Provider {
			p, err := New(t.Context(), map[string]any{"app_name": "rollout-test"}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			return p
		},
		Image: testenv.Image,
		Vanish: func(t testing.TB, id string) {
			if err := backdoor.Remove(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		},
		Parallel: true, Less: true, Lacks: lacks,
	})
}
