package docker

import (
	"context"
	"net"
	"testing"

	"github.com/docker/docker/api/types/image"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/environment/environmenttest"
	"github.com/org/rollout-action/internal/test/testenv"
)

// lasting is a provider whose Close leaves its killer to the others: to start one for each check
// takes long.
type lasting struct{ *Provider }

func (l lasting) Close() error { return l.Provider.api.Close() }

func TestConformance(t *testing.T) {
	testenv.Long(t, "all of the contract, on the machine's engine")
	engine := newProvider(t, nil)
	environmenttest.Run(t, environmenttest.Options{
		New: func(t testing.TB) environment.Provider {
			p, err := New(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			p.killers = engine.killers
			return lasting{p}
		},
		Image:    testImage,
		Parallel: true,
		Less:     testenv.Times(1, 2) == 1, // the nightly run has the full amounts; a change has them with other providers
		Serve:    func(t testing.TB) string { return environmenttest.Outside(t, engine.gateway(t)) },
		Local: func(t testing.TB) []string {
			address := environmenttest.Outside(t, "127.0.0.1")
			_, port, _ := net.SplitHostPort(address)
			return []string{address, "localhost:" + port}
		},
		NetworkClient: environmenttest.BashClient,
		Vanish: func(t testing.TB, id string) {
			if err := engine.Remove(t.Context(), id); err != nil { // which is patient with a busy engine
				t.Fatal(err)
			}
		},
		Forget: func(t testing.TB, ref string) {
			// In use by another container of the same check: then that check's end removes it.
			_, _ = engine.api.ImageRemove(context.Background(), ref, image.RemoveOptions{Force: true, PruneChildren: true})
		},
	})
}
