//go:build linux

package sandbox

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"github.com/org/rollout-action/providers/internal/initclient"

	"github.com/org/rollout-action/providers/internal/initproc"
	"github.com/org/rollout-action/providers/internal/initwire"
)

// The roles in which this program starts itself, passed as the program name; see also
// initproc.Role. These are workers, see worker.go.
const (
	roleWorker       = "rollout-sandbox-worker"
	roleWorkerMapped = "rollout-sandbox-worker-mapped"
)

// Init must be the first call in main (and in the TestMain of tests that use this provider).
// Sandboxes are started by executing this program again. Init does not return in such a process.
func Init() {
	switch os.Args[0] {
	case roleWorker:
		work()
	case roleWorkerMapped:
		initproc.WaitForIDs(roleWorker)
	}
}

// starts receives functions for a thread that lives as long as this process: the kernel ends
// sandboxes when the thread that started them ends (PR_SET_PDEATHSIG).
var starts = sync.OnceValue(func() chan<- func() {
	c := make(chan func())
	go func() {
		runtime.LockOSThread()
		for start := range c {
			start()
		}
	}()
	return c
})

// startProcess starts a command in the thread of starts. It returns a startError if the kernel
// refuses.
func startProcess(cmd *exec.Cmd) error {
	failed := make(chan error)
	starts() <- func() { failed <- cmd.Start() }
	if err := <-failed; err != nil {
		return &startError{err}
	}
	return nil
}

// sandboxProcess is a running sandbox: its process 1, and the connection to it.
type sandboxProcess struct {
	*initclient.Client
	cmd   *exec.Cmd
	ready initwire.Answer
}

// launch starts a sandbox and waits until its file system is mounted. before, if not nil, runs when
// process 1 exists and before anything in the sandbox does. cgroupTasks are for initwire.Setup.
func launch(ctx context.Context, mode mode, setup initwire.Setup, before func(pid int) error, cgroupTasks ...*os.File) (*sandboxProcess, error) {
	conn, theirs, err := initwire.Pair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	b := &sandboxProcess{Client: initclient.New()}
	cmd, release, err := mode.command(initproc.Role, initproc.RoleMapped, theirs)
	if err != nil {
		conn.Close()
		return nil, err
	}
	cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC
	if setup.Loopback {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWNET
	}
	cmd.Stderr = &b.Stderr
	b.cmd = cmd
	if err := b.start(conn, release, before); err != nil {
		return nil, err
	}
	theirs.Close() // otherwise the connection would never end
	if b.ready, err = b.SetUp(ctx, setup, cgroupTasks...); err != nil {
		b.End()
		return nil, err
	}
	return b, nil
}

// start starts process 1 and the goroutines that serve it.
func (b *sandboxProcess) start(conn *initwire.Conn, release func(pid int) error, before func(pid int) error) error {
	if err := startProcess(b.cmd); err != nil {
		conn.Close()
		return errors.Join(err, release(0))
	}
	b.Connect(conn, func() { _ = b.cmd.Process.Kill() }, func() { _ = b.cmd.Wait() }) // the exit status has no meaning
	err := release(b.cmd.Process.Pid)
	if err == nil && before != nil {
		err = before(b.cmd.Process.Pid)
	}
	if err != nil {
		b.End()
		return err
	}
	return nil
}

// startError reports that the kernel denied starting a process in new namespaces.
type startError struct{ err error }

func (e *startError) Error() string { return "start a sandbox: " + e.err.Error() }
func (e *startError) Unwrap() error { return e.err }
