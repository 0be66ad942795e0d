package trial_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/test/testenv"
	"github.com/org/rollout-action/providers/docker"
)

// dockerPlace is a Docker engine with a Debian image.
var dockerPlace = place{
	name:     docker.Name,
	image:    testenv.Image,
	kernel:   true,
	limits:   true,
	users:    func(testing.TB) bool { return true },
	slots:    make(chan struct{}, 4),
	patience: 10,
	open:     openDocker,
	lose:     func(p environment.Provider, id string) error { return p.Remove(context.Background(), id) },
}

// theEngine is one provider for all tests.
var theEngine = sync.OnceValues(func() (environment.Provider, error) { return docker.New(context.Background(), nil) })

func openDocker(t testing.TB) environment.Provider {
	t.Helper()
	testenv.NeedDocker(t)
	p, err := theEngine()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// forgetIn calls forget in places where images remain.
func forgetIn(t testing.TB, p place, o outcome) {
	t.Helper()
	if p.name == docker.Name {
		forget(t, o)
	}
}

// forget removes the image that was built for a trial. It must never touch another: the one that
// tests start from is shared by all users of this engine.
func forget(t testing.TB, o outcome) {
	t.Helper()
	if o.Trial.Environment == nil || !strings.HasPrefix(o.Trial.Environment.Image, "rollout/"+o.Trial.Task+":") {
		return
	}
	api, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		t.Error(err)
		return
	}
	defer api.Close()
	// Without force: images in use stay.
	_, _ = api.ImageRemove(context.Background(), o.Trial.Environment.Image, image.RemoveOptions{})
}
