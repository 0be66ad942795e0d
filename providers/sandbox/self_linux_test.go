package sandbox

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/initproc"
)

func TestSealedProgramCannotBeWritten(t *testing.T) {
	program := sealedProgram()
	if program == nil {
		t.Fatal("no copy of the program was made")
	}
	path := fmt.Sprintf("/proc/self/fd/%d", program.Fd())
	if f, err := os.OpenFile(path, os.O_WRONLY, 0); err == nil {
		if _, err := f.WriteString("x"); err == nil {
			t.Error("it can be written")
		}
		f.Close()
	}
	want, err := os.ReadFile(guestProgram())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != string(want) {
		t.Errorf("it is another program: %d bytes, want %d (%v)", len(got), len(want), err)
	}
}

// TestStartDoesNotDependOnFileDescriptors: starting a process renumbers files in it, above the
// highest number of those that it gets. With many open files that was once the very number of the
// program.
func TestStartDoesNotDependOnFileDescriptors(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	newProvider(t, map[string]any{"base": baseHost, "dir": storeDir(t)}) // so that it is said where sandboxes cannot be had
	mode := findMode(networkOwn)
	for number := firstFile; number < 130; number++ {
		fd, err := unix.FcntlInt(null.Fd(), unix.F_DUPFD_CLOEXEC, number)
		if err != nil {
			t.Fatal(err)
		}
		high := os.NewFile(uintptr(fd), "high")
		cmd, release, err := mode.command(initproc.Role, initproc.RoleMapped, high)
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatalf("with file %d: %v", fd, errors.Join(err, release(0)))
		}
		if err := release(cmd.Process.Pid); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err == nil {
			t.Error("process 1 is content with a connection that is none")
		}
		high.Close()
	}
}

// TestProcess1RunsTheCopy: /proc/1/exe must never be the machine's file.
func TestProcess1RunsTheCopy(t *testing.T) {
	p := newProvider(t, map[string]any{"base": baseHost, "dir": storeDir(t)})
	env, err := p.CreateEnvironment(t.Context(), environment.CreateOptions{Image: testImage})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = env.Destroy(t.Context()) }()
	target, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", env.(*sandboxEnv).process.cmd.Process.Pid))
	if os.IsPermission(err) {
		t.Skip("this user may not see what process 1 runs")
	}
	if err != nil || !strings.HasPrefix(target, "/memfd:") {
		t.Errorf("process 1 runs %s, not a copy in memory (%v)", target, err)
	}
}

// TestCopyFromStopsAtMaximumDepth: and the copying ends.
func TestCopyFromStopsAtMaximumDepth(t *testing.T) {
	p := newProvider(t, map[string]any{"base": baseHost, "dir": storeDir(t)})
	env, err := p.CreateEnvironment(t.Context(), environment.CreateOptions{Image: testImage})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = env.Destroy(t.Context()) }()
	var said strings.Builder
	code, err := env.Exec(t.Context(), `mkdir /deep && cd /deep && echo top > top && for i in {1..300}; do mkdir d && cd d || exit; done`,
		environment.ExecOptions{Stderr: &said})
	if err != nil || code != 0 {
		t.Fatal(code, err, said.String())
	}
	out, err := env.CopyFrom(t.Context(), "/deep", t.TempDir(), environment.ExtractOptions{})
	if err != nil || out.Files < 60 || out.Files > 100 || len(out.Omitted) == 0 {
		t.Errorf("%d files came out, %d are said to be missing: %v", out.Files, len(out.Omitted), err)
	}
}
