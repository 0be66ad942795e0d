package trial_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/test/fake"
	"github.com/org/rollout-action/internal/test/testenv"
)

// fakePlace is a place in memory that reports violations of the contract.
var fakePlace = place{
	name:  fake.Name,
	image: testenv.Image,
	users: func(testing.TB) bool { return false },
	slots: make(chan struct{}, 16),
	open: func(t testing.TB) environment.Provider {
		p := &fakeProvider{world: fake.NewWorld()}
		p.Provider = fake.New(fake.Options{World: p.world, Complain: func(complaint string) {
			if !p.lost.Load() || !strings.Contains(complaint, "which is gone") { // the caller cannot know about an accident
				t.Error(complaint)
			}
		}})
		t.Cleanup(func() { p.Close() })
		return p
	},
	lose: func(p environment.Provider, id string) error {
		p.(*fakeProvider).lost.Store(true)
		p.(*fakeProvider).world.Lose(id)
		return nil
	},
}

type fakeProvider struct {
	*fake.Provider
	world *fake.World
	lost  atomic.Bool
}
