package trial_test

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"

	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/providers/docker"
)

const dockerImage = "debian:bookworm"

// dockerPlace is a Docker engine with a Debian image.
var dockerPlace = place{
	name:   docker.Name,
	image:  dockerImage,
	kernel: true,
	slots:  make(chan struct{}, 4),
	open:   openDocker,
	lose:   func(p environment.Provider, id string) error { return p.Remove(context.Background(), id) },
}

// theEngine is one provider for all tests.
var theEngine = sync.OnceValues(func() (environment.Provider, error) {
	p, err := docker.New(context.Background(), nil)
	if err != nil {
		return nil, err
	}
	return p, p.PullImage(context.Background(), dockerImage, nil)
})

func openDocker(t testing.TB) environment.Provider {
	t.Helper()
	p, err := theEngine()
	if err != nil {
		if strings.Contains(os.Getenv("ROLLOUT_TEST_REQUIRE"), docker.Name) {
			t.Fatal(err)
		}
		t.Skipf("needs a Docker engine with the image %s: %v", dockerImage, err)
	}
	return p
}

// forgetIn is forget, where images are things that remain.
func forgetIn(t testing.TB, p place, o outcome) {
	t.Helper()
	if p.name == docker.Name {
		forget(t, o)
	}
}

// forget removes the image that was built for a trial. It must never touch another: the one that
// tests start from is shared with whoever uses this engine.
func forget(t testing.TB, o outcome) {
	t.Helper()
	if o.Trial.Environment == nil || !strings.HasPrefix(o.Trial.Environment.Image, "rollout/puzzle:") {
		return
	}
	api, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		t.Error(err)
		return
	}
	defer api.Close()
	// Without force: what is in use stays.
	_, _ = api.ImageRemove(context.Background(), o.Trial.Environment.Image, image.RemoveOptions{})
}
