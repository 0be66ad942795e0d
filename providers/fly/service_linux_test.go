package fly

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/environment/environmenttest"
	"github.com/org/rollout-action/internal/test/testenv"
	"github.com/org/rollout-action/providers/fly/flytest"
	"github.com/org/rollout-action/providers/sandbox"
)

// scene is a service of Fly's with machines on this machine.
type scene struct {
	*flytest.Service
	images *flytest.Images
	hosts  *environmenttest.Hosts
	runs   environment.Provider
}

// oneID reports whether root is the only user of machines: this user has one id.
func (s *scene) oneID(t *testing.T) bool {
	t.Helper()
	e, err := s.runs.CreateEnvironment(t.Context(), environment.CreateOptions{Image: testenv.Image, Labels: environment.Labels{Job: "ids"}})
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

// buildProgram builds the program that machines run.
var buildProgram = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "rollout-fly-test-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "program")
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", file, "github.com/org/rollout-action/providers/kubernetes/internal/podprogram")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the program: %w: %s", err, out)
	}
	return os.ReadFile(file)
})

// serve starts a service. The test is skipped where there are no sandboxes.
func serve(t *testing.T) *scene {
	t.Helper()
	s := &scene{hosts: &environmenttest.Hosts{}}
	servers := s.hosts.NameServers(t)
	runs, err := sandbox.New(t.Context(), map[string]any{"base": "host", "dir": storeDir}, sandbox.Options{
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			return s.hosts.Dial(ctx, network, address)
		}, NameServers: servers,
	})
	if environment.KindOf(err) == environment.KindUnavailable {
		testenv.Lacks(t, "sandbox", err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	s.runs = runs
	s.images = flytest.NewImages(runs, testenv.Image)
	s.Service = flytest.Start(runs, s.images)
	t.Cleanup(s.Close)
	for name, value := range s.Variables() {
		t.Setenv(name, value)
	}
	return s
}

// storeDir is the directory of the sandboxes' layers and changes.
var storeDir string

func TestMain(m *testing.M) { os.Exit(testenv.RunWithStore(m, &storeDir)) }

// open connects to the service.
func (s *scene) open(t testing.TB, cfg map[string]any) *Provider {
	t.Helper()
	p, err := New(t.Context(), cfg, Options{Program: buildProgram, Images: s.images, Dial: s.hosts.Dial, Unpaced: true})
	if err != nil {
		t.Fatal(err)
	}
	return p
}
