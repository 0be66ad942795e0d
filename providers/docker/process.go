package docker

import (
	"context"
	"io"
	"sync/atomic"
	"time"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/org/rollout-action/internal/environment"
)

const (
	// drainTime is how long output is read after the exit, if a background process holds it open.
	drainTime = 500 * time.Millisecond
	// startGrace bounds how long the engine takes to say that a command starts, or did not.
	startGrace = 30 * time.Second
	pollMin    = 100 * time.Millisecond
	pollMax    = time.Second
)

// process is a command that runs in a container, or did.
type process struct {
	e     *containerEnv
	id    string // of the exec
	conn  types.HijackedResponse
	input input
	heard atomic.Bool   // something came from it, so it did start
	ended chan struct{} // closed at the end of its output
	cut   error         // why its output ended before its time; for use after ended is closed
}

// start runs a command. stdout and stderr are called by one goroutine, until ended is closed.
func (e *containerEnv) start(ctx context.Context, opts container.ExecOptions, stdin io.Reader, stdout, stderr io.Writer) (*process, error) {
	opts.AttachStdin, opts.AttachStdout, opts.AttachStderr = stdin != nil, true, true
	created, err := e.p.api.ContainerExecCreate(ctx, e.id, opts)
	if err != nil {
		return nil, e.unusable(ctx, "run a command in the container", err)
	}
	conn, err := e.attach(ctx, created.ID)
	if err != nil {
		return nil, e.unusable(ctx, "start a command in the container", err)
	}
	p := &process{e: e, id: created.ID, conn: conn, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		_, p.cut = stdcopy.StdCopy(stdout, stderr, readerFunc(p.read))
	}()
	if stdin != nil {
		p.input.Reader = stdin
		go func() {
			_, _ = io.Copy(conn.Conn, &p.input)
			_ = conn.CloseWrite()
		}()
	}
	return p, nil
}

// read reads the multiplexed output.
func (p *process) read(b []byte) (int, error) {
	n, err := p.conn.Reader.Read(b)
	if n > 0 {
		p.heard.Store(true)
	}
	return n, err
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// input remembers why reading failed: a command that finds its input cut off does not know.
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

// attach starts an exec. Once the engine was asked to, there is no way back, so that the end of ctx
// only counts before.
func (e *containerEnv) attach(ctx context.Context, id string) (types.HijackedResponse, error) {
	if err := ctx.Err(); err != nil {
		return types.HijackedResponse{}, err
	}
	type attached struct {
		conn types.HijackedResponse
		err  error
	}
	result := make(chan attached, 1)
	go func() { // the client does not obey ctx while it waits for the answer
		conn, err := e.p.api.ContainerExecAttach(context.WithoutCancel(ctx), id, container.ExecAttachOptions{})
		result <- attached{conn, err}
	}()
	select {
	case a := <-result:
		return a.conn, a.err
	case <-time.After(startGrace):
		go func() {
			if a := <-result; a.err == nil {
				a.conn.Close()
			}
		}()
		return types.HijackedResponse{}, &environment.Error{Kind: environment.KindLost, Transient: true, Err: errSilent}
	}
}

// wait returns the exit code when the process has exited and its output has ended, or half a second
// after the exit. It returns the cause of ctx's end with the process still running.
func (p *process) wait(ctx context.Context) (int, error) {
	interval := pollMin
	for {
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
			return p.lost(ctx, err)
		}
		// An exec that did not start yet is not running either.
		if !state.Running && (state.Pid != 0 || p.heard.Load()) {
			p.drain(drainTime)
			return state.ExitCode, nil
		}
	}
}

// exit waits for the exit of a process whose output has ended, which usually is that very moment.
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

func (p *process) lost(ctx context.Context, err error) (int, error) {
	if ctx.Err() != nil {
		return -1, context.Cause(ctx)
	}
	return -1, p.e.unusable(ctx, "follow a command in the container", err)
}

// drain reads what comes within limit, and hangs up. The engine goes on emptying the pipes of what
// still runs.
func (p *process) drain(limit time.Duration) {
	select {
	case <-p.ended:
	case <-time.After(limit):
	}
	p.conn.Close()
	<-p.ended
}
