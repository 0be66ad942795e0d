package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/lib/awake"
)

const (
	// drainTime is how long output is read after the exit, if a background process holds it open.
	drainTime = 500 * time.Millisecond
	// After that, output that has arrived is still read: until the reader has waited for more of it
	// in quietTicks ticks, one after another, or in pausedTicks of all. A process that never pauses
	// has drainTicks.
	drainTick   = 10 * time.Millisecond
	quietTicks  = 5
	pausedTicks = 50
	drainTicks  = 1000
	// startGrace bounds how long the engine takes to say that a command starts, or did not.
	startGrace = 30 * time.Second
	pollMin    = 100 * time.Millisecond
	pollMax    = time.Second
)

// process is a command in a container, running or ended.
type process struct {
	e     *containerEnv
	id    string // of the exec
	conn  types.HijackedResponse
	input input
	heard atomic.Bool   // something came from it, so it did start
	reads atomic.Int64  // beginnings and ends of reads of its output: odd during one
	asked int           // how often the engine was asked to start it
	ended chan struct{} // closed at the end of its output
	cut   error         // why its output ended before its time; for use after ended is closed
}

// start runs a command. stdout and stderr are called by one goroutine, until ended is closed. On a
// terminal all output goes to stdout.
func (e *containerEnv) start(ctx context.Context, opts container.ExecOptions, stdin io.Reader, stdout, stderr io.Writer) (*process, error) {
	opts.AttachStdin, opts.AttachStdout, opts.AttachStderr = stdin != nil, true, true
	id, err := e.define(ctx, opts)
	if err != nil {
		return nil, err
	}
	conn, asked, err := e.launch(ctx, id, opts.Tty)
	if err != nil {
		return nil, err
	}
	p := &process{e: e, id: id, conn: conn, asked: asked, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		if opts.Tty { // one stream, as it is
			_, p.cut = io.Copy(stdout, readerFunc(p.read))
			return
		}
		_, p.cut = stdcopy.StdCopy(stdout, stderr, readerFunc(p.read))
	}()
	if stdin != nil {
		p.input.Reader = stdin
		go func() {
			_, _ = io.Copy(conn.Conn, &p.input)
			if !opts.Tty { // there the engine would close the output
				_ = conn.CloseWrite()
			}
		}()
	}
	return p, nil
}

// read reads the multiplexed output.
func (p *process) read(b []byte) (int, error) {
	p.reads.Add(1)
	n, err := p.conn.Reader.Read(b)
	p.reads.Add(1)
	if n > 0 {
		p.heard.Store(true)
	}
	return n, err
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// input is a reader that records its error: a command whose input is cut off does not know the
// cause.
type input struct {
	io.Reader
	failed atomic.Pointer[error]
}

func (i *input) Read(p []byte) (int, error) {
	n, err := i.Reader.Read(p)
	if err != nil && err != io.EOF {
		i.failed.Store(&err)
	}
	return n, err
}

// define creates a command in the engine. It does not begin yet, so this may be repeated.
func (e *containerEnv) define(ctx context.Context, opts container.ExecOptions) (id string, err error) {
	const doing = "run a command in the container"
	var final error
	err = persistWhile(ctx, func(err error) bool {
		if isGone(err) { // or the container is
			final = e.unusable(ctx, doing, err)
			return environment.IsTransient(final)
		}
		return isPassing(err)
	}, func() error {
		final = nil
		created, err := e.p.api.ContainerExecCreate(ctx, e.id, opts)
		id = created.ID
		return err
	})
	switch {
	case err == nil:
		return id, nil
	case final != nil:
		return "", final
	}
	return "", e.unusable(ctx, doing, err)
}

// errUnattended reports a command that was started and whose output is lost.
var errUnattended = errors.New("the command began, but the engine's answer was lost, and its output with it")

// launch starts a defined command. It may be repeated: the engine starts a command at most once and
// reports a second attempt in the command's output, see startedBefore. A request cannot be undone,
// so the end of ctx counts only before the first one. asked is the number of requests.
func (e *containerEnv) launch(ctx context.Context, id string, tty bool) (conn types.HijackedResponse, asked int, err error) {
	const doing = "start a command in the container"
	if err := ctx.Err(); err != nil {
		return conn, 0, failedInside(environment.KindExec, doing, err)
	}
	limited, cancel := awake.WithTimeoutCause(context.WithoutCancel(ctx), startGrace, &environment.Error{
		Kind: environment.KindLost, Transient: true, Err: errSilent,
	})
	defer cancel()
	unanswered := false // some request may still be on its way
	for try := 1; ; try++ {
		conn, err := hijack(limited, func(ctx context.Context) (types.HijackedResponse, error) {
			return e.p.api.ContainerExecAttach(ctx, id, container.ExecAttachOptions{Tty: tty})
		})
		if err == nil {
			return conn, try, nil
		}
		unanswered = unanswered || isConnection(err) || limited.Err() != nil
		state, lost := e.p.api.ContainerExecInspect(limited, id)
		switch {
		case lost == nil && (state.Running || state.Pid > 0):
			return conn, try, e.abandon(ctx, fmt.Errorf("%s: %w (%w)", doing, errUnattended, err))
		case limited.Err() != nil || isConnection(lost):
			return conn, try, failedInside(environment.KindLost, doing, err)
		case ctx.Err() == nil && try < engineTries && backOff(limited, try):
			continue
		case unanswered:
			return conn, try, e.abandon(ctx, fmt.Errorf("%s: it is not known whether it began: %w", doing, err))
		}
		failure := e.unusable(ctx, doing, err)
		if e.p.podman.Load() && errors.Is(failure, environment.ErrNotBegun) { // its answer to a user that does not exist
			failure = &environment.Error{Kind: environment.KindExec, Hint: missingHint, Err: fmt.Errorf("%s: %w", doing, err)}
		}
		return conn, try, failure
	}
}

// wait returns the exit code when the process has exited and its output has ended, or half a second
// after the exit. It returns the cause of ctx's end with the process still running.
func (p *process) wait(ctx context.Context) (int, error) {
	interval := pollMin
	for failures := 0; ; {
		select {
		case <-ctx.Done():
			return -1, context.Cause(ctx)
		case <-p.ended:
			if p.cut != nil {
				return p.lost(ctx, p.cut)
			}
			return p.exit(ctx)
		case <-time.After(interval):
		}
		interval = min(interval*3/2, pollMax)
		state, err := p.e.p.api.ContainerExecInspect(ctx, p.id)
		if err != nil {
			// It is asked about anyway, and its output may still come.
			if failures++; failures == engineTries || !isPassing(err) {
				return p.lost(ctx, err)
			}
			continue
		}
		failures = 0
		// An exec that did not start yet is not running either.
		if !state.Running && (state.Pid != 0 || p.heard.Load()) {
			p.drain(drainTime)
			return state.ExitCode, nil
		}
	}
}

// exit waits for the exit of a process whose output has ended, usually at the same moment.
func (p *process) exit(ctx context.Context) (int, error) {
	for interval := time.Millisecond; ; interval = min(2*interval, pollMax) {
		state, err := p.e.p.api.ContainerExecInspect(ctx, p.id)
		if err != nil {
			return p.lost(ctx, err)
		}
		if !state.Running {
			return state.ExitCode, nil
		}
		select {
		case <-ctx.Done():
			return -1, context.Cause(ctx)
		case <-time.After(interval):
		}
	}
}

// lost returns the error for a command that began and cannot be followed any more. Its end is
// unknown.
func (p *process) lost(ctx context.Context, err error) (int, error) {
	if ctx.Err() != nil {
		return -1, context.Cause(ctx)
	}
	const doing = "follow a command in the container"
	if isConnection(err) {
		return -1, failedInside(environment.KindLost, doing, err)
	}
	var known *environment.Error
	if gone := p.e.unusable(ctx, doing, err); errors.As(gone, &known) && !errors.Is(gone, environment.ErrNotBegun) && known.Kind != environment.KindExec {
		return -1, gone
	}
	return -1, &environment.Error{Kind: environment.KindLost, Transient: true, Err: fmt.Errorf("%s: %w", doing, err)}
}

// drain reads output until limit and, unless that is 0, what has arrived by then. It closes the
// connection. The engine goes on emptying the pipes of running processes.
func (p *process) drain(limit time.Duration) {
	select {
	case <-p.ended:
	case <-time.After(limit):
		if limit > 0 {
			p.catchUp()
		}
	}
	p.conn.Close()
	<-p.ended
}

// catchUp returns when all output that has arrived is read, or after drainTicks: on a busy machine,
// or with a slow receiver, the reader is behind.
func (p *process) catchUp() {
	tick := time.NewTicker(drainTick)
	defer tick.Stop()
	last := p.reads.Load()
	for quiet, paused, ticks := 0, 0, 0; quiet < quietTicks && paused < pausedTicks && ticks < drainTicks; ticks++ {
		select {
		case <-p.ended:
			return
		case <-tick.C:
		}
		now := p.reads.Load()
		if now == last && now%2 == 1 {
			quiet++
			paused++
		} else {
			quiet = 0
		}
		last = now
	}
}

// code returns the exit code of a process that has ended, when its output has.
func (p *process) code(ctx context.Context) (int, error) {
	p.drain(drainTime)
	return p.exit(context.WithoutCancel(ctx))
}
