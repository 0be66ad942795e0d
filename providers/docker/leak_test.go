package docker

import (
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
)

// Nothing goes on after Close: no goroutine and no connection is left.
func TestNothingIsLeftRunning(t *testing.T) {
	newProvider(t, nil).Close()
	before, files := runtime.NumGoroutine(), openFiles(t)
	func() {
		p, err := New(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		env, err := p.CreateEnvironment(t.Context(), environment.CreateOptions{Image: testImage, Labels: testLabels(t)})
		if err != nil {
			t.Fatal(err)
		}
		run(t, env, "sleep 600 & true")
		if err := timesOut(t, env, "sleep 600 & sleep 600", 500*time.Millisecond); !errors.Is(err, environment.ErrTimeout) {
			t.Error(err)
		}
		if _, err := env.Exec(t.Context(), "cat; exit 3", environment.ExecOptions{Stdin: strings.NewReader("in"), Stdout: io.Discard}); err != nil {
			t.Error(err)
		}
		_, err = env.CopyFrom(t.Context(), "/usr/bin", t.TempDir(), environment.ExtractOptions{MaxBytes: 1 << 20})
		if !errors.Is(err, environment.ErrTooLarge) {
			t.Error(err)
		}
		if _, err := env.CopyFrom(t.Context(), "/no", t.TempDir(), environment.ExtractOptions{}); err == nil {
			t.Error("no error")
		}
		if _, err := p.BuildImage(t.Context(), environment.BuildOptions{Context: fstest.MapFS{"Dockerfile": {Data: []byte("FROM " + testImage + "\nRUN exit 1\n")}}}); err == nil {
			t.Error("no error")
		}
		if err := p.PullImage(t.Context(), "127.0.0.1:1/x", nil); err == nil {
			t.Error("no error")
		}
		if err := env.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
		if err := env.CopyTo(t.Context(), environment.Copy{Src: fstest.MapFS{"f": {Data: make([]byte, 1<<20)}}, Dst: "/x"}); err == nil {
			t.Error("no error")
		}
	}()
	deadline := time.Now().Add(30 * time.Second)
	for runtime.NumGoroutine() > before || openFiles(t) > files {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, %d before; %d open files, %d before\n%s", runtime.NumGoroutine(), before, openFiles(t), files, stacks[:runtime.Stack(stacks, true)])
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skipf("needs /proc: %v", err)
	}
	return len(entries)
}
