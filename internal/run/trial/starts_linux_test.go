package trial_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/testenv"
	"github.com/org/rollout-action/providers/sandbox"
)

func TestFailedSandboxFailsItsTrial(t *testing.T) {
	t.Parallel()
	standIns(t) // skips where there are none
	testenv.NeedRoot(t, "to mount a small file system")
	small := t.TempDir()
	// Enough for the picture of this machine's directories, which sandboxes stand on.
	if err := syscall.Mount("none", small, "tmpfs", 0, "size=512m"); err != nil {
		testenv.Lacks(t, sandbox.Name, "the right to mount a small file system: "+err.Error())
	}
	t.Cleanup(func() { // after those of the trials
		if err := syscall.Unmount(small, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	p := sandboxPlace
	provider, err := sandbox.New(t.Context(), map[string]any{"base": "host", "dir": filepath.Join(small, "store")}, sandbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p.open = func(testing.TB) environment.Provider { return provider }
	filler := filepath.Join(small, "filler")
	s := story{agent: script("true"), hooks: hooks{before: func(_ context.Context, c call) error {
		if c.op == "create" { // the image is there by then
			fill(t, filler)
		}
		return nil
	}}}
	p.run(t, s).check(t, want{err: result.EnvironmentStartFailed, says: []string{"make a sandbox", "no space left on device"}})
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	s.hooks = hooks{}
	p.run(t, s).check(t, want{reward: "1"})
}

// fill writes a file until the disk is full.
func fill(t *testing.T, path string) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	for size := 1 << 20; size > 0; { // the last pages, too
		_, err := f.Write(make([]byte, size))
		if errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else if err != nil {
			t.Error(err)
			return
		}
	}
}
