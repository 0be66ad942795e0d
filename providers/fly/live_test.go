package fly

import (
	"os"
	"testing"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/environment/environmenttest"
	"github.com/org/rollout-action/internal/test/testenv"
)

// lacks are the optional interfaces that Fly has nothing for. Its network policies take effect when
// a machine begins, so the network of one cannot change; and a machine that is stopped loses its
// files, so none can be kept or continued.
var lacks = []string{"ImageStore", "Restorer", "OutcomeKeeper", "BaseReporter", "Snapshotter", "ChangeReporter", "NetworkSetter", "ServiceProvider"}

// skips are the checks that machines cannot pass, with the reasons.
var skips = map[string]string{
	"a timeout kills a command that kills what it does not know":               "the guest is not process 1: root can end it, and what it has printed is lost with it",
	"a timeout kills a command that has put links in the place of directories": "root can remove the guest's file, which each command of the service starts: the environment is lost then",
	"cpus are limited": "a machine has whole CPUs: a quarter of one is rounded up to one",
}

// TestLive runs the contract in the account whose token is in the environment. It costs money.
func TestLive(t *testing.T) {
	if os.Getenv("ROLLOUT_TEST_LIVE") != Name {
		testenv.Lacks(t, Name, "ROLLOUT_TEST_LIVE=fly and a token of Fly.io")
	}
	open := func(t testing.TB) *Provider {
		cfg := map[string]any{}
		for key, variable := range map[string]string{"registry": "ROLLOUT_TEST_FLY_REGISTRY", "org": "ROLLOUT_TEST_FLY_ORG"} {
			if value := os.Getenv(variable); value != "" {
				cfg[key] = value
			}
		}
		p, err := New(t.Context(), cfg, Options{})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	backdoor := open(t)
	t.Cleanup(func() { _ = backdoor.Close() })
	environmenttest.Run(t, environmenttest.Options{
		New:   func(t testing.TB) environment.Provider { return open(t) },
		Image: testenv.Image,
		Vanish: func(t testing.TB, id string) {
			if err := backdoor.Remove(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		},
		Parallel: true, Less: true, Lacks: lacks, Skip: skips,
	})
}
