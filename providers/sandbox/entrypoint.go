//go:build linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/providers/sandbox/internal/wire"
)

// entry is the process that an image's ENTRYPOINT runs as.
type entry struct {
	said    tail                // the end of what it printed
	ending  atomic.Pointer[end] // set when it has ended in a way that ends the sandbox
	over    chan struct{}       // closed when it has ended in any way
	entered atomic.Bool         // CreateEnvironment is done with it
	busy    bool                // see environment.Readiness
	ran     atomic.Bool         // a command has begun
}

// end is how an ENTRYPOINT ended.
type end struct {
	code int
	err  error // it could not be started
}

// Readiness implements environment.ReadinessReporter.
func (e *sandboxEnv) Readiness() environment.Readiness {
	return environment.Readiness{Healthcheck: e.img.health(), Busy: e.entry.busy}
}

// health is the image's HEALTHCHECK.
func (i *image) health() *environment.Healthcheck {
	h := i.Healthcheck
	if h == nil {
		return nil
	}
	return environment.NewHealthcheck(h.Test, i.Shell, environment.Healthcheck{
		Interval: h.Interval, Timeout: h.Timeout, StartPeriod: h.StartPeriod, StartInterval: h.StartInterval, Retries: h.Retries,
	})
}

// enter runs the image's ENTRYPOINT, if it has one, and waits until it has run its arguments.
func (e *sandboxEnv) enter(ctx context.Context) error {
	if len(e.img.Entrypoint) == 0 {
		return nil
	}
	process, err := e.box.startCommand(wire.Command{
		Args: slices.Concat(e.img.Entrypoint, environment.Idle()), Env: environ(e.img.Env, e.env),
		Dir: e.img.WorkDir, User: e.img.User, MaxProcesses: e.perUser,
	}, nil, &e.entry.said, &e.entry.said)
	if err != nil {
		return e.failed(ctx, environment.KindStart, "run the image's ENTRYPOINT", err)
	}
	e.entry.over = make(chan struct{})
	go e.watch(context.WithoutCancel(ctx), process)
	var within time.Duration
	if e.img.health() == nil {
		within = environment.HandoverTime
	}
	answer, err := e.box.call(ctx, wire.Request{
		Op: wire.Await, Target: process.id, Command: &wire.Command{Args: environment.Idle()}, Within: within,
	})
	if ctx.Err() != nil {
		return fmt.Errorf("wait for the image's ENTRYPOINT: %w", ctx.Err())
	}
	e.entry.entered.Store(true)
	if err == nil && (answer.Begun || answer.Running) {
		e.entry.busy = !answer.Begun && within > 0
		return nil
	}
	select {
	case <-e.entry.over: // it has ended, so this comes
	case <-ctx.Done():
		return fmt.Errorf("wait for the image's ENTRYPOINT: %w", ctx.Err())
	}
	return e.lost("run the image's ENTRYPOINT")
}

// watch ends the sandbox when the ENTRYPOINT exits. ctx does not end.
func (e *sandboxEnv) watch(ctx context.Context, process *started) {
	defer close(e.entry.over)
	answer, err := process.wait(ctx)
	switch {
	case errors.Is(err, errGone):
		return // it was ended with the sandbox
	case err == nil && answer.Killed && e.entry.entered.Load():
		return // as process 1 it would have been spared
	}
	e.entry.ending.Store(&end{answer.Code, err})
	e.box.end()
}

// failure is the error of a sandbox that its ENTRYPOINT has ended, nil if there is none.
func (e *sandboxEnv) entryFailure() error {
	ending := e.entry.ending.Load()
	if ending == nil {
		return nil
	}
	failure := &environment.Error{
		Kind: environment.KindStart, Output: e.entry.said.String(),
		Err:  fmt.Errorf("the image's ENTRYPOINT %q has ended (exit code %d), and the sandbox with it", e.img.Entrypoint, ending.code),
		Hint: "an ENTRYPOINT must run the command that it is given, as exec \"$@\" does",
	}
	if ending.err != nil {
		failure.Err = fmt.Errorf("the image's ENTRYPOINT %q cannot be run: %w", e.img.Entrypoint, ending.err)
		failure.Hint = e.execHint(e.img.User)
	}
	if e.OOMKills(context.Background()) > 0 {
		failure.Err, failure.Hint = fmt.Errorf("%w: %w", failure.Err, environment.ErrOutOfMemory), ""
	}
	if e.entry.ran.Load() {
		failure.Kind = environment.KindLost
	}
	return failure
}
