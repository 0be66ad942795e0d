package kubernetes

import (
	"context"
	"net"
	"testing"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/environment/environmenttest"
	"github.com/org/rollout-action/internal/test/testenv"
)

func TestConformance(t *testing.T) {
	testenv.Long(t, "all of the contract, on a cluster")
	c := needCluster(t)
	shared := c.open(t, nil)
	t.Cleanup(func() {
		if err := shared.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	environmenttest.Run(t, environmenttest.Options{
		New: func(t testing.TB) environment.Provider {
			p := c.open(t, nil)
			return p
		},
		Image:    c.image,
		Parallel: true,
		Less:     testenv.Times(1, 2) == 1,
		Serve:    shared.server,
		Local: func(t testing.TB) []string {
			address := environmenttest.Outside(t, "127.0.0.1")
			_, port, _ := net.SplitHostPort(address)
			return []string{address, "localhost:" + port}
		},
		NetworkClient: environmenttest.BashClient,
		Vanish: func(t testing.TB, id string) {
			if err := shared.Remove(context.Background(), id); err != nil {
				t.Fatal(err)
			}
		},
		Lacks: []string{"ImageStore", "Restorer", "OutcomeKeeper", "BaseReporter"},
		Skip: map[string]string{
			"storage is limited": "the kubelet evicts a pod some seconds after it has written too much: the trial ends as lost",
			"a connection does not outlive the network that it was made in": "policies do not end connections that exist: SetNetwork fails, see TestSetNetwork",
		},
	})
}
