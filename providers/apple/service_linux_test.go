package apple

import (
	"os"
	"runtime"
	"testing"

	"github.com/org/rollout-action/internal/test/hostedtest"
	"github.com/org/rollout-action/internal/test/testenv"
	"github.com/org/rollout-action/providers/apple/appletest"
	"github.com/org/rollout-action/providers/internal/imagestest"
)

// scene is a system service of container with containers on this machine.
type scene struct {
	*appletest.Service
	runs *hostedtest.Sandboxes
	dir  string
}

// serve starts a service. The test is skipped where there are no sandboxes.
func serve(t *testing.T) *scene {
	t.Helper()
	s := &scene{runs: hostedtest.Open(t, storeDir), dir: t.TempDir()}
	var err error
	if s.Service, err = appletest.Start(s.runs, imagestest.New(s.runs, testenv.Image)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// storeDir is the directory of the sandboxes' layers and changes.
var storeDir string

func TestMain(m *testing.M) {
	if appletest.Called() {
		os.Exit(appletest.Main())
	}
	os.Exit(testenv.RunWithStore(m, &storeDir))
}

func (s *scene) options() Options {
	return Options{OS: "darwin", Architecture: runtime.GOARCH, Command: s.Program(), Dir: s.dir, Program: hostedtest.Program, Dial: s.runs.Hosts.Dial}
}

// open connects to the service.
func (s *scene) open(t testing.TB, cfg map[string]any) *Provider {
	t.Helper()
	p, err := New(t.Context(), cfg, s.options())
	if err != nil {
		t.Fatal(err)
	}
	return p
}
