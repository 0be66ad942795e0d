package modal

import (
	"os"
	"testing"

	"github.com/org/rollout-action/internal/test/hostedtest"
	"github.com/org/rollout-action/internal/test/testenv"
	"github.com/org/rollout-action/providers/modal/modaltest"
)

// scene is a service of Modal's with sandboxes on this machine.
type scene struct {
	*modaltest.Service
	runs *hostedtest.Sandboxes
}

// serve starts a service. The test is skipped where there are no sandboxes.
func serve(t *testing.T) *scene {
	t.Helper()
	s := &scene{runs: hostedtest.Open(t, storeDir)}
	var err error
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
	p, err := New(t.Context(), cfg, Options{
		Program: hostedtest.Program, Images: modaltest.Images{testenv.Image}, Dial: s.runs.Hosts.Dial,
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}
