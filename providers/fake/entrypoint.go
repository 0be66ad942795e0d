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

// entry is the process that an image's ENTRYPOINT runs as.
type entry struct {
	said excerpt.Ends
	code atomic.Int64
	busy bool
	ran  atomic.Bool // a command has begun
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

// idle is environment.Idle without process substitution, which the fake environment does not have.
const idle = "while :; do sleep infinity & wait $!; done"

// enter runs the image's ENTRYPOINT, if it has one, and waits until it has run its arguments.
func (e *Environment) enter(ctx context.Context) error {
	if len(e.image.entrypoint) == 0 {
		return nil
	}
	words := slices.Concat(e.image.entrypoint, environment.Idle())
	for i, word := range words {
		words[i] = quote(word)
	}
	opts := environment.ExecOptions{Stdout: &e.entry.said, Stderr: &e.entry.said}
	x := e.m.execution(e.env, opts)
	p, err := x.begin("exec "+strings.Join(words, " "), nil, e.image, opts)
	if err != nil {
		return &environment.Error{Kind: environment.KindStart, Err: fmt.Errorf("run the image's ENTRYPOINT: %w", err)}
	}
	entered := make(chan struct{})
	go func() {
		<-p.done
		_, code := p.dead()
		select {
		case <-entered:
			if code >= 128 {
				return // a signal: a container's first process would have been spared
			}
		default:
		}
		e.entry.code.Store(int64(code))
		e.end(over)
	}()
	defer close(entered)
	if e.image.health() != nil {
		return nil
	}
	timer := time.NewTimer(environment.HandoverTime)
	defer timer.Stop()
	select {
	case <-e.m.handed:
	case <-timer.C:
		e.entry.busy = true
	case <-e.ended:
		return e.lost()
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// handOver notes that the idle command runs.
func (m *machine) handOver() {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-m.handed:
	default:
		close(m.handed)
	}
}

// failure is the error of an environment that its ENTRYPOINT has ended.
func (e *entry) failure(img *image) error {
	failure := &environment.Error{
		Kind: environment.KindStart, Output: strings.TrimSpace(e.said.String()),
		Err:  fmt.Errorf("the image's ENTRYPOINT %q has ended (exit code %d)", img.entrypoint, e.code.Load()),
		Hint: "an ENTRYPOINT must run the command that it is given, as exec \"$@\" does",
	}
	if e.ran.Load() {
		failure.Kind = environment.KindLost
	}
	return failure
}
