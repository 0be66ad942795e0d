package modal

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/environment/environmenttest"
	"github.com/org/rollout-action/internal/test/testenv"
	"github.com/org/rollout-action/providers/internal/registryimage"
	"github.com/org/rollout-action/providers/modal/modaltest"
	"github.com/org/rollout-action/providers/sandbox"
)

// scene is a service of Modal's with sandboxes on this machine.
type scene struct {
	*modaltest.Service
	hosts *environmenttest.Hosts
	runs  environment.Provider
}

// buildProgram builds the program that sandboxes run.
var buildProgram = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "rollout-modal-test-")
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
	var err error
	s.runs, err = sandbox.New(t.Context(), map[string]any{"base": "host", "dir": storeDir}, sandbox.Options{
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
	if s.Service, err = modaltest.Start(s.runs); err != nil {
		t.Fatal(err)
	}
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
	p, err := New(t.Context(), cfg, Options{Program: buildProgram, Images: localImages{}, Dial: s.hosts.Dial})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// localImages describes all images as those of this machine, which set nothing.
type localImages struct{}

func (localImages) Config(_ context.Context, ref string) (registryimage.Image, error) {
	if ref != testenv.Image {
		return registryimage.Image{}, &environment.Error{Kind: environment.KindPull, Err: fmt.Errorf("look for %s: %w", ref, os.ErrNotExist)}
	}
	return registryimage.Image{Ref: ref, Digest: "sha256:" + ref}, nil
}

func (localImages) Build(context.Context, environment.BuildOptions) (string, error) {
	return "", &environment.Error{Kind: environment.KindBuild, Err: io.EOF}
}
func (localImages) CheckBuild(context.Context, environment.BuildOptions) error { return nil }
func (localImages) Close() error                                               { return nil }
