package main

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/internal/testenv"
	"github.com/org/rollout-action/providers/sandbox"
)

// hostRoot returns a provider on this machine's root, with a store for this test.
func hostRoot(t *testing.T, opts sandbox.Options) environment.Provider {
	t.Helper()
	dir, err := os.MkdirTemp("", "rollout-bench-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := testenv.RemoveStore(dir); err != nil {
			t.Error(err)
		}
	})
	provider, err := sandbox.New(t.Context(), map[string]any{"base": "host", "dir": dir}, opts)
	testenv.Check(t, "sandbox", err)
	t.Cleanup(func() { provider.Close() })
	return provider
}

// The subtests share one provider, because capturing this machine's root takes seconds.
func TestSandboxes(t *testing.T) {
	server, err := serveZeros(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	address := server.Addr().(*net.TCPAddr)
	provider := hostRoot(t, sandbox.Options{Dial: dialing(address)})
	t.Run("the floor writes the files of a trial", func(t *testing.T) { writesTheSame(t, provider) })
	t.Run("downloads are measured", func(t *testing.T) { measuresDownloads(t, provider, address) })
	t.Run("live sandboxes are measured and destroyed", func(t *testing.T) { measuresWhatIsAlive(t, provider) })
}

func writesTheSame(t *testing.T, provider environment.Provider) {
	ours, floor, err := sandboxSides(t.Context(), t.TempDir(), testenv.Image, provider)
	if err != nil {
		t.Fatal(err)
	}
	if ours.base == "" || ours.base == testenv.Image {
		t.Errorf("the base is called %q", ours.base)
	}
	if len(floor.left.result) == 0 || len(floor.left.files) == 0 {
		t.Errorf("the floor would write a result of %d bytes and %d files", len(floor.left.result), len(floor.left.files))
	}
	values, err := trialTurns(t.Context(), 1, ours, floor)
	if err != nil {
		t.Fatal(err)
	}
	if len(values) != 2 || len(values[0]) != 1 || len(values[1]) != 1 || values[0][0] <= 0 || values[1][0] <= 0 {
		t.Errorf("the values are %v", values)
	}
	if rest, err := os.ReadDir(floor.dir); err != nil || len(rest) > 0 {
		t.Errorf("the floor left %v, %v", rest, err)
	}
}

func measuresDownloads(t *testing.T, provider environment.Provider, server *net.TCPAddr) {
	b := &bench{rounds: 1, image: testenv.Image, stderr: t.Output()}
	if err := b.sandboxDownload(t.Context(), provider, server); err != nil {
		t.Fatal(err)
	}
	if r := b.report.Results; len(r) != 1 || r[0].Ours.Median <= 0 || r[0].Floor == nil {
		t.Errorf("%+v", r)
	}
}

func TestFloorFailsWithItsScripts(t *testing.T) {
	floor := &unboxed{dir: t.TempDir(), left: sample{directories: []string{"."}, result: []byte("{}")}}
	if err := floor.trial(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", t.TempDir())
	if err := floor.trial(t.Context()); err == nil {
		t.Error("the floor was measured without bash")
	}
	if rest, _ := filepath.Glob(floor.dir + "/*/left/" + result.ResultFile); len(rest) > 0 {
		t.Errorf("it left %v", rest)
	}
}

func measuresWhatIsAlive(t *testing.T, provider environment.Provider) {
	env := &onSandbox{provider: provider, image: testenv.Image}
	var memory []float64
	if _, err := many(&memory, 3, env.ender)(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(memory) != 1 || memory[0] < 0.1 || memory[0] > 100 {
		t.Errorf("an idle sandbox has %v MB", memory)
	}
	if listed, err := env.provider.List(t.Context()); err != nil || len(listed) > 0 {
		t.Errorf("%d sandboxes are left, %v", len(listed), err)
	}
}

func TestDescendantsMemory(t *testing.T) {
	before, err := descendantsMemory(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", "cat; true") // cat is a grandchild
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	with, err := descendantsMemory(os.Getpid())
	if err != nil || with <= before {
		t.Errorf("with a child it is %g MB, without %g MB, %v", with, before, err)
	}
	input.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if after, err := descendantsMemory(os.Getpid()); err != nil || after >= with {
		t.Errorf("after its end it is %g MB, %v", after, err)
	}
}

func TestDescends(t *testing.T) {
	parents := map[int]int{1: 0, 10: 1, 20: 10, 30: 20, 40: 41, 41: 40}
	for _, c := range []struct {
		what          string
		pid, ancestor int
		want          bool
	}{
		{"a child descends", 20, 10, true},
		{"a grandchild descends", 30, 10, true},
		{"a process is not its own descendant", 10, 10, false},
		{"a parent does not descend from its child", 10, 20, false},
		{"a loop ends", 40, 10, false},
		{"an unknown process", 99, 10, false},
	} {
		if got := descends(parents, c.pid, c.ancestor); got != c.want {
			t.Errorf("%s: got %v", c.what, got)
		}
	}
}

func TestChildReportsItsMeasurements(t *testing.T) {
	dir, err := os.MkdirTemp("", "rollout-bench-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := testenv.RemoveStore(dir); err != nil {
			t.Error(err)
		}
	})
	testenv.NeedDocker(t) // otherwise the image would be searched for in the network
	t.Setenv(imageVariable, testenv.Image)
	t.Setenv(roundsVariable, "1")
	var out bytes.Buffer
	if code := child(t.Context(), childSandboxes, dir, &out, os.Stderr); code != 0 {
		t.Fatalf("the child's code is %d", code)
	}
	var values sandboxValues
	err = json.Unmarshal(out.Bytes(), &values)
	if values.Refuse != "" {
		testenv.Lacks(t, "sandbox", values.Refuse)
	}
	if err != nil || len(values.Ours) != 1 || len(values.Floor) != 1 || values.Base == "" {
		t.Errorf("it reports %s, %v", &out, err)
	}
}
