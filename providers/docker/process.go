package docker

import (
	"context"
	"io"
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
	ended chan error // receives the stream's end: nil, or why it broke
	fed   chan error // receives the end of the input
}

// start runs a command. stdout and stderr are called by one goroutine until ended receives.
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
	p := &process{e: e, id: created.ID, conn: conn, ended: make(chan error, 1), fed: make(chan error, 1)}
	go func() {
		_, err := stdcopy.StdCopy(stdout, stderr, conn.Reader)
		p.ended <- err
	}()
	if stdin == nil {
		p.fed <- nil
		return p, nil
	}
	go func() {
		_, err := io.Copy(conn.Conn, stdin)
		_ = conn.CloseWrite()
		p.fed <- err
	}()
	return p, nil
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
			p.ended <- nil
			return p.exit(ctx)
		case <-time.After(interval):
		}
		interval = min(interval*3/2, pollMax)
		state, err := p.e.p.api.ContainerExecInspect(ctx, p.id)
		if err != nil {
			return p.lost(ctx, err)
		}
		// An exec that did not start yet is not running either, but has no process id.
		if !state.Running && state.Pid != 0 {
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
	return -1, p.e.unusable(ctx, "wait for a command in the container", err)
}

// drain reads what comes within limit, and hangs up. The engine goes on emptying the pipes of what
// still runs.
func (p *process) drain(limit time.Duration) {
	select {
	case <-p.ended:
		p.conn.Close()
	case <-time.After(limit):
		p.conn.Close()
		<-p.ended
	}
	p.ended <- nil
}
