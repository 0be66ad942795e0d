package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/test/testenv"
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
	provider := hostRoot(t, sandbox.Options{Dial: server.dial})
	if err := provider.PullImage(t.Context(), testenv.Image, nil); err != nil {
		t.Fatal(err)
	}
	ours, err := newStage(t.Context(), t.TempDir(), testenv.Image, 1, provider)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("trials are measured", func(t *testing.T) {
		if ms, err := ours.trials(1, 1)(t.Context()); err != nil || ms <= 0 {
			t.Errorf("%v ms, %v", ms, err)
		}
	})
	t.Run("downloads are measured", func(t *testing.T) {
		b := &bench{rounds: 1, image: testenv.Image, stderr: t.Output()}
		if err := b.downloads(t.Context(), ours, server); err != nil {
			t.Fatal(err)
		}
		if r := b.report.results; len(r) != 1 || r[0].ours.median <= 0 || r[0].floor == nil {
			t.Errorf("%+v", r)
		}
	})
	t.Run("live sandboxes are measured and destroyed", func(t *testing.T) {
		var memory []float64
		if _, err := ours.many(3, &memory)(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(memory) != 1 || memory[0] < 0.1 || memory[0] > 100 {
			t.Errorf("an idle sandbox has %v MB", memory)
		}
		if listed, err := provider.List(t.Context()); err != nil || len(listed) > 0 {
			t.Errorf("%d sandboxes are left, %v", len(listed), err)
		}
	})
}

func TestDescendantsMemory(t *testing.T) {
	before, err := descendantsMemory("self")
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
	with, err := descendantsMemory("self")
	if err != nil || with <= before {
		t.Errorf("with a child it is %g MB, without %g MB, %v", with, before, err)
	}
	input.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if after, err := descendantsMemory("self"); err != nil || after >= with {
		t.Errorf("after its end it is %g MB, %v", after, err)
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
	var out bytes.Buffer
	args := []string{childArg, "-work", "sandbox", "-dir", dir, "-image", testenv.Image, "-rounds", "1"}
	if code := run(t.Context(), args, &out, os.Stderr); code != 0 {
		t.Fatalf("the child's code is %d", code)
	}
	var report childReport
	err = json.Unmarshal(out.Bytes(), &report)
	if report.Missing != "" {
		testenv.Lacks(t, "sandbox", report.Missing)
	}
	if err != nil || len(report.Values) != 1 || report.PeakMB <= 0 {
		t.Errorf("it reports %s, %v", &out, err)
	}
}
