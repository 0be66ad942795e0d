//go:build linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"github.com/org/rollout-action/internal/excerpt"
	"github.com/org/rollout-action/providers/internal/inside"
	"github.com/org/rollout-action/providers/internal/wire"
)

// The roles in which this program starts itself, as the name that it is started with; see inside.Role, too. These
// are workers, see worker.go.
const (
	roleWorker       = "rollout-sandbox-worker"
	roleWorkerMapped = "rollout-sandbox-worker-mapped"
)

// Init must be the first call in main (and in the TestMain of tests that use this provider). Sandboxes are started by
// executing this program again. Init does not return in such a process.
func Init() {
	switch os.Args[0] {
	case roleWorker:
		work()
	case roleWorkerMapped:
		inside.WaitForIDs(roleWorker)
	}
}

// starts receives functions for one thread that lives as long as this process: the kernel ends sandboxes when the
// thread that started them ends (PR_SET_PDEATHSIG).
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

// startProcess starts a command in the thread of starts. It returns a startError if the kernel refuses.
func startProcess(cmd *exec.Cmd) error {
	failed := make(chan error)
	starts() <- func() { failed <- cmd.Start() }
	if err := <-failed; err != nil {
		return &startError{err}
	}
	return nil
}

// errGone says that the sandbox has ended, whoever ended it.
var errGone = errors.New("the sandbox is not running any more")

// box is a running sandbox: its process 1, and the connection to it.
type box struct {
	cmd      *exec.Cmd
	conn     *wire.Conn
	stderr   tail
	received chan struct{} // closed when nothing more can be received
	ended    chan struct{} // closed when process 1, and everything with it, has ended and received is closed
	ready    wire.Answer

	mu      sync.Mutex
	last    int64
	waiting map[int64]chan wire.Answer
	closed  bool
}

// launch starts a sandbox and waits until its file system is mounted. before, if not nil, runs when process 1 exists
// and before anything in the sandbox does. cgroupTasks are for wire.Setup.
func launch(ctx context.Context, mode mode, setup wire.Setup, before func(pid int) error, cgroupTasks ...*os.File) (*box, error) {
	conn, theirs, err := wire.Pair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	b := &box{conn: conn, received: make(chan struct{}), ended: make(chan struct{}), waiting: map[int64]chan wire.Answer{}}
	cmd, release, err := mode.command(inside.Role, inside.RoleMapped, theirs)
	if err != nil {
		conn.Close()
		return nil, err
	}
	cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC
	if setup.Loopback {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWNET
	}
	cmd.Stderr = &b.stderr
	b.cmd = cmd
	if err := b.start(release, before); err != nil {
		return nil, err
	}
	theirs.Close() // otherwise the connection would never end
	if err := b.setUp(ctx, setup, cgroupTasks); err != nil {
		b.end()
		return nil, err
	}
	return b, nil
}

// start starts process 1 and the goroutines that serve it.
func (b *box) start(release func(pid int) error, before func(pid int) error) error {
	if err := startProcess(b.cmd); err != nil {
		b.conn.Close()
		return errors.Join(err, release(0))
	}
	go b.receive()
	go func() {
		_ = b.cmd.Wait() // the exit status has no meaning
		<-b.received
		close(b.ended)
	}()
	err := release(b.cmd.Process.Pid)
	if err == nil && before != nil {
		err = before(b.cmd.Process.Pid)
	}
	if err != nil {
		b.end()
		return err
	}
	return nil
}

// startError says that the kernel does not start a process in its own namespaces.
type startError struct{ err error }

func (e *startError) Error() string { return "start a sandbox: " + e.err.Error() }
func (e *startError) Unwrap() error { return e.err }

// setupError says that process 1 could not create the sandbox. refused: the kernel does not permit something that is
// needed. lacking: the image does not have a program that is needed. workDir: the image's working directory cannot be
// created.
type setupError struct {
	refused, lacking, workDir bool
	problem                   string
}

func (e *setupError) Error() string { return e.problem }

func (b *box) setUp(ctx context.Context, setup wire.Setup, cgroupTasks []*os.File) error {
	ready := b.register(0)
	if err := b.conn.Send(setup, cgroupTasks...); err != nil {
		return fmt.Errorf("set a sandbox up: %w", err)
	}
	select {
	case b.ready = <-ready:
	case <-b.ended:
		var ok bool
		if b.ready, ok = pollAnswer(ready); !ok {
			return fmt.Errorf("a sandbox ended before it was ready: %s", b.stderr.String())
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	if b.ready.Problem != "" {
		return &setupError{
			refused: b.ready.Kind == wire.Refused, lacking: b.ready.Kind == wire.NotStarted, workDir: b.ready.Kind == wire.NoWorkDir,
			problem: b.ready.Problem,
		}
	}
	return nil
}

// pollAnswer returns the answer that came before the sandbox ended, if there is one: a select may choose the end
// although both are there.
func pollAnswer(answers <-chan wire.Answer) (answer wire.Answer, ok bool) {
	select {
	case answer = <-answers:
		return answer, true
	default:
		return answer, false
	}
}

// receive passes answers to the goroutines that wait for them.
func (b *box) receive() {
	defer close(b.received)
	for {
		var answer wire.Answer
		files, err := b.conn.Receive(&answer)
		if err != nil {
			_ = b.cmd.Process.Kill() // nobody can talk to it any more
			return
		}
		answer.Files = files
		b.mu.Lock()
		waiting := b.waiting[answer.ID]
		delete(b.waiting, answer.ID)
		b.mu.Unlock()
		if waiting != nil {
			waiting <- answer
			continue
		}
		for _, f := range files {
			f.Close()
		}
	}
}

// register creates the channel for the answer to a request.
func (b *box) register(id int64) chan wire.Answer {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := make(chan wire.Answer, 1)
	b.waiting[id] = c
	return c
}

// send sends a request. It closes the files that go with it.
func (b *box) send(request wire.Request, files ...*os.File) (int64, <-chan wire.Answer, error) {
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	b.mu.Lock()
	b.last++
	request.ID = b.last
	b.mu.Unlock()
	answers := b.register(request.ID)
	if err := b.conn.Send(request, files...); err != nil {
		if !b.running() || errors.Is(err, syscall.EPIPE) {
			err = errGone
		}
		return 0, nil, err
	}
	return request.ID, answers, nil
}

// call sends a request and waits for its answer.
func (b *box) call(ctx context.Context, request wire.Request, files ...*os.File) (wire.Answer, error) {
	_, answers, err := b.send(request, files...)
	if err != nil {
		return wire.Answer{}, err
	}
	select {
	case answer := <-answers:
		return answer, problemOf(answer)
	case <-b.ended:
		if answer, ok := pollAnswer(answers); ok {
			return answer, problemOf(answer)
		}
		return wire.Answer{}, errGone
	case <-ctx.Done():
		return wire.Answer{}, ctx.Err()
	}
}

// requestError says that a request failed in the sandbox.
type requestError struct {
	kind    wire.Problem
	problem string
	code    int // the exit code of a shell for a command that could not be started; 0: none
}

func (e *requestError) Error() string { return e.problem }

func (e *requestError) Is(target error) bool {
	return e.kind == wire.NotFound && target == os.ErrNotExist
}

func problemOf(answer wire.Answer) error {
	if answer.Problem == "" {
		return nil
	}
	return &requestError{answer.Kind, answer.Problem, answer.Code}
}

// end ends everything in the sandbox and waits until it has ended. It may be called many times.
func (b *box) end() {
	b.mu.Lock()
	if !b.closed {
		b.closed = true
		b.conn.Close()
		_ = b.cmd.Process.Kill()
	}
	b.mu.Unlock()
	<-b.ended
}

// running reports whether process 1 is alive.
func (b *box) running() bool {
	select {
	case <-b.ended:
		return false
	default:
		return true
	}
}

// tail keeps the beginning and the end of what a process prints.
type tail struct{ excerpt.Ends }

func (t *tail) String() string { return strings.TrimSpace(t.Ends.String()) }
