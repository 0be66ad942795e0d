package trial_test

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/environment/environmenttest"
	"github.com/org/rollout-action/internal/test/testenv"
	"github.com/org/rollout-action/providers/sandbox"
)

// sandboxPlace has sandboxes that use this machine's root in place of every image.
var sandboxPlace = place{
	name:     sandbox.Name,
	image:    testenv.Image,
	kernel:   true,
	stands:   true,
	users:    sandboxUsers,
	slots:    make(chan struct{}, 4),
	patience: 10,
	open:     standIns,
	lose:     func(p environment.Provider, id string) error { return p.Remove(context.Background(), id) },
}

// strictPlace has sandboxes without a substitute for images.
var strictPlace = func() place {
	p := sandboxPlace
	p.open, p.stands = opened("image"), false
	return p
}()

var standIns = opened("host")

// hosts holds the hosts that sandboxes reach.
var hosts environmenttest.Hosts

// opened returns a function that opens one provider for all tests, with its own store.
func opened(base string) func(t testing.TB) environment.Provider {
	open := sync.OnceValues(func() (environment.Provider, error) {
		cfg := map[string]any{"base": base, "dir": filepath.Join(stores, base)}
		if archive := testenv.ImageArchive(); archive != "" {
			cfg["images"] = []any{archive}
		}
		return sandbox.New(context.Background(), cfg, sandbox.Options{Dial: hosts.Dial})
	})
	return func(t testing.TB) environment.Provider {
		t.Helper()
		p, err := open()
		testenv.Check(t, sandbox.Name, err)
		return p
	}
}

// needImage skips or fails the test where sandboxes cannot have the image itself.
func needImage(t testing.TB) {
	t.Helper()
	if testenv.ImageArchive() == "" {
		testenv.NeedDocker(t)
	}
}

// sandboxUsers reports whether sandboxes have users other than root: a user with one id has only
// one there.
func sandboxUsers(t testing.TB) bool {
	t.Helper()
	p := standIns(t)
	env, err := p.CreateEnvironment(t.Context(), environment.CreateOptions{Image: testenv.Image})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := env.Destroy(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	var ids strings.Builder
	if _, err := env.Exec(t.Context(), "while read -r _ _ n; do echo $n; done </proc/self/uid_map", environment.ExecOptions{Stdout: &ids}); err != nil {
		t.Fatal(err)
	}
	return ids.String() != "1\n"
}
