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
	"github.com/org/rollout-action/providers/sandbox/internal/inside"
	"github.com/org/rollout-action/providers/sandbox/internal/wire"
)

// The roles in which this program starts itself, as the name that it is started with; see inside.Role, too. These
// are workers, see worker.go.
const (
	roleWorker       = "rollout-sandbox-worker"
	roleWorkerMapped = "rollout-sandbox-worker-mapped"
)

// Init must be the first thing that main does (and TestMain, of tests that use this provider): sandboxes are
// started by executing this very program, which then never gets to the rest of main.
func Init() {
	switch os.Args[0] {
	case roleWorker:
		work()
	case roleWorkerMapped:
		inside.WaitForIDs(roleWorker)
	}
}

// starts run in one thread that lives as long as the process: the kernel ends sandboxes when the thread that
// started them ends (PR_SET_PDEATHSIG).
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

// errGone: the sandbox has ended, whoever ended it.
var errGone = errors.New("the sandbox is not running any more")

// box is a running sandbox as seen from here: its process 1, and the connection to it.
type box struct {
	cmd    *exec.Cmd
	conn   *wire.Conn
	errors tail
	heard  chan struct{} // closed when nothing more can come over the connection
	ended  chan struct{} // closed when process 1, and everything with it, has ended, and its last words were heard
	ready  wire.Answer

	mu      sync.Mutex
	last    int64
	waiting map[int64]chan wire.Answer
	closed  bool
}

// launch starts a sandbox and waits until its file system stands. before runs when process 1 exists but nothing of
// the sandbox does; it may be nil. doors are those of a control group, see wire.Setup.
func launch(ctx context.Context, mode mode, setup wire.Setup, before func(pid int) error, doors ...*os.File) (*box, error) {
	conn, theirs, err := wire.Pair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	b := &box{conn: conn, heard: make(chan struct{}), ended: make(chan struct{}), waiting: map[int64]chan wire.Answer{}}
	cmd, release, err := mode.command(inside.Role, inside.RoleMapped, theirs)
	if err != nil {
		conn.Close()
		return nil, err
	}
	cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC
	if setup.Loopback {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWNET
	}
	cmd.Stderr = &b.errors
	b.cmd = cmd
	if err := b.start(release, before); err != nil {
		return nil, err
	}
	theirs.Close() // or the connection would have no end
	if err := b.begin(ctx, setup, doors); err != nil {
		b.end()
		return nil, err
	}
	return b, nil
}

// start starts process 1 and everything that follows it.
func (b *box) start(release func(pid int) error, before func(pid int) error) error {
	failed := make(chan error)
	starts() <- func() { failed <- b.cmd.Start() }
	if err := <-failed; err != nil {
		b.conn.Close()
		return errors.Join(&startError{err}, release(0))
	}
	go b.receive()
	go func() {
		_ = b.cmd.Wait() // how it ended says nothing
		<-b.heard
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

// startError: the kernel does not start a process in namespaces of its own.
type startError struct{ err error }

func (e *startError) Error() string { return "start a sandbox: " + e.err.Error() }
func (e *startError) Unwrap() error { return e.err }

// setupError: the sandbox could not be made. Refused: the kernel does not allow what it takes. Lacking: a program
// that it needs is not in the image.
type setupError struct {
	refused, lacking bool
	problem          string
}

func (e *setupError) Error() string { return e.problem }

func (b *box) begin(ctx context.Context, setup wire.Setup, doors []*os.File) error {
	ready := b.expect(0)
	if err := b.conn.Send(setup, doors...); err != nil {
		return fmt.Errorf("set a sandbox up: %w", err)
	}
	select {
	case b.ready = <-ready:
	case <-b.ended:
		var said bool
		if b.ready, said = last(ready); !said {
			return fmt.Errorf("a sandbox ended before it began: %s", b.errors.String())
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	if b.ready.Problem != "" {
		return &setupError{
			refused: b.ready.Kind == wire.Refused, lacking: b.ready.Kind == wire.NotStarted, problem: b.ready.Problem,
		}
	}
	return nil
}

// last is an answer that came before the sandbox ended, if one did: both may be seen at once.
func last(answers <-chan wire.Answer) (answer wire.Answer, said bool) {
	select {
	case answer = <-answers:
		return answer, true
	default:
		return answer, false
	}
}

// receive hands answers to who waits for them.
func (b *box) receive() {
	defer close(b.heard)
	for {
		var answer wire.Answer
		files, err := b.conn.Receive(&answer)
		if err != nil {
			_ = b.cmd.Process.Kill() // nobody would hear of it any more
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

// expect makes the channel for the answer to a request.
func (b *box) expect(id int64) chan wire.Answer {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := make(chan wire.Answer, 1)
	b.waiting[id] = c
	return c
}

// send sends a request and closes the files that go with it.
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
	answers := b.expect(request.ID)
	if err := b.conn.Send(request, files...); err != nil {
		if !b.running() || errors.Is(err, syscall.EPIPE) {
			err = errGone
		}
		return 0, nil, err
	}
	return request.ID, answers, nil
}

// call sends a request and waits for its only answer.
func (b *box) call(ctx context.Context, request wire.Request, files ...*os.File) (wire.Answer, error) {
	_, answers, err := b.send(request, files...)
	if err != nil {
		return wire.Answer{}, err
	}
	select {
	case answer := <-answers:
		return answer, problemOf(answer)
	case <-b.ended:
		if answer, said := last(answers); said {
			return answer, problemOf(answer)
		}
		return wire.Answer{}, errGone
	case <-ctx.Done():
		return wire.Answer{}, ctx.Err()
	}
}

// requestError is a request that failed inside.
type requestError struct {
	kind    wire.Problem
	problem string
	code    int // what a shell would say of a command that could not be started; 0: nothing
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

// end ends everything in the sandbox and waits for that. It may be called often.
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

// running reports whether process 1 lives.
func (b *box) running() bool {
	select {
	case <-b.ended:
		return false
	default:
		return true
	}
}

// tail keeps what process 1 or an entrypoint says.
type tail struct{ excerpt.Ends }

func (t *tail) String() string { return strings.TrimSpace(t.Ends.String()) }
