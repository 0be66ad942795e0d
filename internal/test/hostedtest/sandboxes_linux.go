package hostedtest

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/environment/environmenttest"
	"github.com/org/rollout-action/internal/test/testenv"
	"github.com/org/rollout-action/providers/sandbox"
)

// Sandboxes are those of this machine in which a service runs commands.
type Sandboxes struct {
	environment.Provider
	Hosts *environmenttest.Hosts
}

// Open returns sandboxes whose layers and changes are in dir. The test is skipped where there are
// none.
func Open(t testing.TB, dir string) *Sandboxes {
	t.Helper()
	s := &Sandboxes{Hosts: &environmenttest.Hosts{}}
	servers := s.Hosts.NameServers(t)
	runs, err := sandbox.New(t.Context(), map[string]any{"base": "host", "dir": dir}, sandbox.Options{
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			return s.Hosts.Dial(ctx, network, address)
		}, NameServers: servers,
	})
	if environment.KindOf(err) == environment.KindUnavailable {
		testenv.Lacks(t, "sandbox", err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	s.Provider = runs
	return s
}

// OneID reports whether root is the only user of sandboxes, because this machine's user has one id.
func (s *Sandboxes) OneID(t testing.TB) bool {
	t.Helper()
	e, err := s.CreateEnvironment(t.Context(), environment.CreateOptions{Image: testenv.Image, Labels: environment.Labels{Job: "ids"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Destroy(context.Background()) }()
	var ids strings.Builder
	if _, err := e.Exec(t.Context(), "cat /proc/self/uid_map", environment.ExecOptions{Stdout: &ids}); err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(ids.String())
	return len(fields) == 3 && fields[2] == "1"
}
