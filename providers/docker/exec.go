package docker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/org/rollout-action/internal/awake"
	"github.com/org/rollout-action/internal/environment"
)

const (
	killed = 128 + 9 // the exit code of what SIGKILL ended
	// lostGrace is how long the end of a container may take to show.
	lostGrace = 5 * time.Second
)

var errSilent = errors.New("the Docker engine does not answer")

// Exec implements environment.Environment.
func (e *containerEnv) Exec(ctx context.Context, script string, opts environment.ExecOptions) (int, error) {
	mark := "rollout-exec-" + rand.Text() + " "
	args, err := command(mark, script)
	if err != nil {
		return -1, &environment.Error{Kind: environment.KindExec, Err: err}
	}
	out := newOutput(mark, opts.Stdout, opts.Stderr)
	code, err := e.exec(ctx, container.ExecOptions{
		Cmd:        args,
		Env:        environ(opts.Env, e.door.variables()),
		WorkingDir: opts.WorkDir,
		User:       opts.User,
	}, opts, out)
	if writing := out.close(); err == nil && writing != nil {
		err = fmt.Errorf("hand on the command's output: %w", writing)
	}
	return code, err
}

func (e *containerEnv) exec(ctx context.Context, cfg container.ExecOptions, opts environment.ExecOptions, out *output) (int, error) {
	p, err := e.start(ctx, cfg, opts.Stdin, writerFunc(out.stdout), writerFunc(out.stderr))
	if err != nil {
		return -1, err
	}
	defer p.drain(0)
	limited := ctx
	if opts.Timeout > 0 {
		var cancel context.CancelFunc
		limited, cancel = awake.WithTimeoutCause(ctx, opts.Timeout, environment.ErrTimeout)
		defer cancel()
	}
	code, err := p.wait(limited)
	if limited.Err() != nil && err != nil {
		return -1, e.end(ctx, p, out, context.Cause(limited))
	}
	if err != nil {
		return -1, err
	}
	p.drain(0)
	if !out.open {
		return -1, e.notStarted(ctx, out)
	}
	e.ran.Store(true)
	if err := e.survived(ctx, code); err != nil {
		return code, err
	}
	if reading := p.input.failed.Load(); reading != nil {
		return code, fmt.Errorf("read the command's input: %w", *reading)
	}
	return code, nil
}

// end kills what a command started after cause ended it, and returns cause when all of it is dead.
func (e *containerEnv) end(ctx context.Context, p *process, out *output, cause error) error {
	if err := e.killSince(ctx, p, out); err != nil {
		return err
	}
	p.drain(drainTime)
	return cause
}

// notStarted is the error of a command whose shell never ran.
func (e *containerEnv) notStarted(ctx context.Context, out *output) error {
	if err := e.stillThere(ctx); err != nil {
		return err
	}
	said := strings.TrimSpace(string(out.heldOut) + string(out.heldErr))
	return &environment.Error{
		Kind: environment.KindExec,
		Hint: "the image needs bash, and the working directory and user must exist in it",
		Err:  fmt.Errorf("the command could not be started: %s", said),
	}
}

// survived returns an error if a command was killed because its container ended.
func (e *containerEnv) survived(ctx context.Context, code int) error {
	if code != killed {
		return nil
	}
	return e.stillThere(ctx)
}

// stillThere returns an error if the container has ended.
func (e *containerEnv) stillThere(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lostGrace)
	defer cancel()
	// For a moment the engine takes a dead container for a running one; but nothing starts in it.
	if !e.ended.Load() && e.answers(ctx) {
		return nil
	}
	for {
		state, err := e.p.api.ContainerInspect(ctx, e.id)
		if err != nil && ctx.Err() == nil {
			return failedInside(environment.KindLost, "look after the container", err)
		}
		if err == nil && state.State != nil && !state.State.Running {
			return e.gone(ctx, state)
		}
		select {
		case <-ctx.Done():
			return nil // it is there, if too full to answer
		case <-time.After(pollMin):
		}
	}
}

// answers reports whether commands can be started.
func (e *containerEnv) answers(ctx context.Context) bool {
	p, err := e.start(ctx, ownCommand(":"), nil, io.Discard, io.Discard)
	if err != nil {
		return false
	}
	code, err := p.wait(ctx)
	p.drain(0)
	return err == nil && code == 0
}

// ownCommand runs a script of ours, whatever the image and the agent have made of the environment:
// without BASH_ENV and functions that are variables (-p), as root, and where there always is a folder.
func ownCommand(script string, args ...string) container.ExecOptions {
	return container.ExecOptions{
		Cmd:        append([]string{"bash", "-p", "-c", script, "bash"}, args...),
		Env:        []string{"LC_ALL=C"},
		User:       "0:0",
		WorkingDir: "/",
	}
}

// unusable is the error for a container that refused a request. If it does not run, the error says why.
func (e *containerEnv) unusable(ctx context.Context, doing string, err error) error {
	if isContext(err) || isConnection(err) {
		return failedInside(environment.KindExec, doing, err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startGrace)
	defer cancel()
	state, lost := e.p.api.ContainerInspect(ctx, e.id)
	if lost != nil {
		return failedInside(environment.KindLost, doing, lost)
	}
	if state.State != nil && !state.State.Running {
		return e.gone(ctx, state)
	}
	if cerrdefs.IsNotFound(err) {
		return wrapped(environment.KindExec, doing, err)
	}
	return failedInside(environment.KindExec, doing, err)
}

// gone is the error for a container that does not run any more. Before anything did run in it the
// image is at fault.
func (e *containerEnv) gone(ctx context.Context, state container.InspectResponse) error {
	lost := &environment.Error{
		Kind: environment.KindLost,
		Err:  fmt.Errorf("the container is not running any more (exit code %d)", state.State.ExitCode),
	}
	if state.State.OOMKilled {
		lost.Err = fmt.Errorf("%w: %w", lost.Err, environment.ErrOutOfMemory)
	}
	if e.ended.Load() || e.ran.Load() {
		return lost
	}
	lost.Kind = environment.KindStart
	lost.Output = e.lastLogs(ctx)
	if state.State.OOMKilled {
		return lost
	}
	if state.Config != nil && len(state.Config.Entrypoint) > 0 {
		lost.Hint = fmt.Sprintf("the image's ENTRYPOINT %q must run the command that it is given, as exec \"$@\" does", state.Config.Entrypoint)
	} else {
		lost.Hint = "the image needs bash and sleep"
	}
	return lost
}
