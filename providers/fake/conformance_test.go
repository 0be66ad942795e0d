package fake_test

import (
	"crypto/rand"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/internal/environment/environmenttest"
	"github.com/org/rollout-action/providers/fake"
)

func TestConformance(t *testing.T) {
	world := fake.NewWorld()
	serve := func(testing.TB) string {
		host := strings.ToLower(rand.Text()) + ".example"
		world.Serve(host, 8080, "hello")
		return host + ":8080"
	}
	environmenttest.Run(t, environmenttest.Options{
		New:       func(testing.TB) environment.Provider { return fake.New(fake.Options{World: world}) },
		Image:     "debian:bookworm",
		Parallel:  true,
		Serve:     serve,
		ServeName: serve,
		Local: func(testing.TB) []string {
			world.Serve("127.0.0.1", 8080, "hello")
			world.Serve("localhost", 8080, "hello")
			return []string{"127.0.0.1:8080", "localhost:8080"}
		},
		NetworkClient: fake.NetworkClient,
		Vanish:        func(_ testing.TB, id string) { world.Lose(id) },
		Forget:        func(_ testing.TB, ref string) { world.Forget(ref) },
		Skip: map[string]string{
			"values of variables are in no process's arguments": "there are no arguments to read: commands are functions of this process",
		},
	})
}
