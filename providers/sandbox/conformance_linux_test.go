package sandbox

import (
	"testing"

	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/internal/environment/environmenttest"
)

func TestConformance(t *testing.T) {
	dir := storeDir(t)
	newProvider := func(t testing.TB) *Provider {
		p, err := New(t.Context(), map[string]any{"dir": dir}, Options{Progress: func(line string) { t.Log(line) }})
		if err != nil {
			t.Fatal(err)
		}
		return p.(*Provider)
	}
	backdoor := newProvider(t)
	environmenttest.Run(t, environmenttest.Options{
		New:   func(t testing.TB) environment.Provider { return newProvider(t) },
		Image: "debian:bookworm",
		Vanish: func(t testing.TB, id string) {
			if err := backdoor.store.remove(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		},
		Parallel: true,
	})
}
