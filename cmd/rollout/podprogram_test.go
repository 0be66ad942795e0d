package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/test/testenv"
)

// maxPodProgram is the size limit, in bytes, of the program that each pod copies. The whole rollout
// binary is ten times that size.
const maxPodProgram = 10_000_000

// In the published image, which is a helper image, the installer is a link to the released binary.
func TestPodsCopyASmallProgram(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the program is for Linux")
	}
	testenv.NeedReleased(t)
	released, err := testenv.Binary(t.TempDir(), testenv.Released...)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	installer, target := filepath.Join(dir, "rollout-guest-install"), filepath.Join(dir, "installed")
	if err := errors.Join(os.Symlink(released, installer), os.Mkdir(target, 0o755)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), installer, target).CombinedOutput(); err != nil {
		t.Fatalf("install: %v: %s", err, out)
	}
	program := filepath.Join(target, "rollout-guest")
	info, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", info.Size())
	if info.Size() > maxPodProgram {
		t.Errorf("a pod copies %d bytes, want at most %d", info.Size(), maxPodProgram)
	}
	// It also serves as the connector in the guest, but not as the command line.
	for name, want := range map[string]string{
		"rollout-guest-connect": "connect to the guest",
		"rollout":               "this program runs in pods",
	} {
		cmd := exec.CommandContext(t.Context(), program, "version")
		cmd.Args[0] = name
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v: %s, want %q", name, err, out, want)
		}
	}
}
