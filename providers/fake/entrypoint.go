package fake

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/internal/excerpt"
)

// entry is what became of an image's ENTRYPOINT.
type entry struct {
	printed excerpt.Ends
	code    atomic.Int64
	busy    bool
	ran     atomic.Bool // a command has begun
}

// Readiness implements environment.ReadinessReporter.
func (e *Environment) Readiness() environment.Readiness {
	return environment.Readiness{Healthcheck: e.image.health(), Busy: e.entry.busy}
}

func (i *image) health() *environment.Healthcheck {
	h := i.healthcheck
	if h == nil {
		return nil
	}
	return environment.NewHealthcheck(h.Test, i.shell, environment.Healthcheck{
		Interval: h.Interval, Timeout: h.Timeout, StartPeriod: h.StartPeriod, StartInterval: h.StartInterval, Retries: h.Retries,
	})
}

// enter runs the image's ENTRYPOINT, if it has one, and waits until it has run its arguments.
func (e *Environment) enter(ctx context.Context) error {
	if len(e.image.entrypoint) == 0 {
		return nil
	}
	script := "exec " + quoted(slices.Concat(e.image.entrypoint, environment.Idle()))
	_, p, err := e.m.begin(script, nil, e.env, e.image, environment.ExecOptions{Stdout: &e.entry.printed, Stderr: &e.entry.printed})
	if err != nil {
		return &environment.Error{Kind: environment.KindStart, Err: fmt.Errorf("run the image's ENTRYPOINT: %w", err)}
	}
	var entered atomic.Bool
	defer entered.Store(true)
	go func() {
		<-p.done
		_, code := p.dead()
		if code >= 128 && entered.Load() {
			return // a signal, which would spare a container's first process
		}
		e.entry.code.Store(int64(code))
		e.end(over)
	}()
	if e.image.health() != nil {
		return nil
	}
	select {
	case <-e.m.handed:
	case <-time.After(environment.HandoverTime):
		e.entry.busy = true
	case <-e.ended:
		return e.lost()
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// handOver notes that the ENTRYPOINT has run its arguments.
func (m *machine) handOver() {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-m.handed:
	default:
		close(m.handed)
	}
}

// failure returns the error of an environment whose ENTRYPOINT has ended.
func (e *entry) failure(img *image) error {
	failure := &environment.Error{
		Kind: environment.KindStart, Output: strings.TrimSpace(e.printed.String()),
		Err:  fmt.Errorf("the image's ENTRYPOINT %q has ended (exit code %d)", img.entrypoint, e.code.Load()),
		Hint: "an ENTRYPOINT must run the command that it is given, as exec \"$@\" does",
	}
	if e.ran.Load() {
		failure.Kind = environment.KindLost
	}
	return failure
}
