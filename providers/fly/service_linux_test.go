package fly

import (
	"os"
	"testing"

	"github.com/org/rollout-action/internal/test/hostedtest"
	"github.com/org/rollout-action/internal/test/testenv"
	"github.com/org/rollout-action/providers/fly/flytest"
)

// scene is a service of Fly's with machines on this machine.
type scene struct {
	*flytest.Service
	images *flytest.Images
	runs   *hostedtest.Sandboxes
}

// serve starts a service. The test is skipped where there are no sandboxes.
func serve(t *testing.T) *scene {
	t.Helper()
	s := &scene{runs: hostedtest.Open(t, storeDir)}
	s.images = flytest.NewImages(s.runs, testenv.Image)
	s.Service = flytest.Start(s.runs, s.images)
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
	p, err := New(t.Context(), cfg, Options{Program: hostedtest.Program, Images: s.images, Dial: s.runs.Hosts.Dial, Unpaced: true})
	if err != nil {
		t.Fatal(err)
	}
	return p
}
