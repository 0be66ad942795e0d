package apple

import (
	"os"
	"testing"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/environment/environmenttest"
	"github.com/org/rollout-action/internal/test/testenv"
)

// lacks are the optional interfaces that container has nothing for. The networks of a container are
// those with which it was created; and it has no command that makes an image of one.
var lacks = []string{"ImageStore", "Restorer", "OutcomeKeeper", "BaseReporter", "Snapshotter", "ChangeReporter", "NetworkSetter", "ServiceProvider"}

// skips are the checks that containers cannot pass, with the reasons.
var skips = map[string]string{"cpus are limited": "containers have whole CPUs: a quarter of one is rounded up to one"}

// TestLive runs the contract on this Mac.
func TestLive(t *testing.T) {
	if os.Getenv("ROLLOUT_TEST_LIVE") != Name {
		testenv.Lacks(t, Name, "ROLLOUT_TEST_LIVE=apple and a Mac with the command container")
	}
	open := func(t testing.TB) *Provider {
		p, err := New(t.Context(), nil, Options{})
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
		Less: true, Lacks: lacks, Skip: skips,
	})
}
