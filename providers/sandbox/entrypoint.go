//go:build linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/org/rollout-action/providers/internal/initclient"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/initwire"
)

// entrypointProcess is the process of an image's ENTRYPOINT.
type entrypointProcess struct {
	output  initclient.Tail                // the end of its output
	exit    atomic.Pointer[entrypointExit] // set when it has ended and the sandbox must end, too
	done    chan struct{}                  // closed when it has ended
	created atomic.Bool                    // CreateEnvironment no longer waits for it
	busy    bool                           // see environment.Readiness
	ran     atomic.Bool                    // a command has begun
}

// entrypointExit is the result of an ENTRYPOINT that has ended.
type entrypointExit struct {
	code int
	err  error // it could not be started
}

// Readiness implements environment.ReadinessReporter.
func (e *sandboxEnv) Readiness() environment.Readiness {
	return environment.Readiness{Healthcheck: e.img.health(), Busy: e.entrypoint.busy}
}

// health returns the image's HEALTHCHECK, or nil.
func (img *image) health() *environment.Healthcheck {
	h := img.Healthcheck
	if h == nil {
		return nil
	}
	return environment.NewHealthcheck(h.Test, img.Shell, environment.Healthcheck{
		Interval: h.Interval, Timeout: h.Timeout, StartPeriod: h.StartPeriod, StartInterval: h.StartInterval, Retries: h.Retries,
	})
}

// runEntrypoint starts the image's ENTRYPOINT, if it has one, and waits until the ENTRYPOINT runs
// its arguments.
func (e *sandboxEnv) runEntrypoint(ctx context.Context) error {
	if len(e.img.Entrypoint) == 0 {
		return nil
	}
	process, err := e.process.Start(initwire.Command{
		Args: slices.Concat(e.img.Entrypoint, environment.Idle()), Env: environ(e.img.Env, e.env),
		Dir: e.img.WorkDir, User: e.img.User, MaxProcesses: e.perUser,
	}, nil, &e.entrypoint.output, &e.entrypoint.output)
	if err != nil {
		return e.requestFailed(ctx, environment.KindStart, "run the image's ENTRYPOINT", err)
	}
	e.entrypoint.done = make(chan struct{})
	go e.watch(context.WithoutCancel(ctx), process)
	var within time.Duration
	if e.img.health() == nil {
		within = environment.HandoverTime
	}
	answer, err := e.process.Call(ctx, initwire.Request{
		Op: initwire.WaitFor, Target: process.ID, Command: &initwire.Command{Args: environment.Idle()}, Within: within,
	})
	if ctx.Err() != nil {
		return fmt.Errorf("wait for the image's ENTRYPOINT: %w", ctx.Err())
	}
	e.entrypoint.created.Store(true)
	if err == nil && (answer.Begun || answer.Running) {
		e.entrypoint.busy = !answer.Begun && within > 0
		return nil
	}
	select {
	case <-e.entrypoint.done: // it has ended, so this is closed soon
	case <-ctx.Done():
		return fmt.Errorf("wait for the image's ENTRYPOINT: %w", ctx.Err())
	}
	return e.lost("run the image's ENTRYPOINT")
}

// watch ends the sandbox when the ENTRYPOINT exits. ctx must not end.
func (e *sandboxEnv) watch(ctx context.Context, process *initclient.Started) {
	defer close(e.entrypoint.done)
	answer, err := process.Wait(ctx)
	switch {
	case errors.Is(err, initclient.ErrGone):
		return // it ended with the sandbox
	case err == nil && answer.Killed && e.entrypoint.created.Load():
		return // as process 1 of a container it would have survived
	}
	e.entrypoint.exit.Store(&entrypointExit{answer.Code, err})
	e.process.End()
}

// entrypointError returns the error of a sandbox that ended because of its ENTRYPOINT, or nil.
func (e *sandboxEnv) entrypointError() error {
	ending := e.entrypoint.exit.Load()
	if ending == nil {
		return nil
	}
	failure := &environment.Error{
		Kind: environment.KindStart, Output: e.entrypoint.output.String(),
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
	if e.entrypoint.ran.Load() {
		failure.Kind = environment.KindLost
	}
	return failure
}
