package hosted

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/lib/egress"
	"github.com/org/rollout-action/providers/internal/podinit"
)

// Environment is the guest's environment in a sandbox that ends with Stop or Destroy: operations
// that this ends, and later ones, fail with KindLost.
type Environment struct {
	*podinit.Environment
	Name   string // such as "sandbox sb-1", for messages
	Limits environment.Limits
	// Price is that of the sandbox for a time, in US dollars, from Since on. nil: it costs nothing.
	Price func(time.Duration) float64
	Since time.Time

	stopping atomic.Bool               // Halt ends its processes
	ended    atomic.Bool               // Halt or End was called
	gone     atomic.Pointer[time.Time] // when it was destroyed
}

var _ environment.LimitReporter = (*Environment)(nil)

// Unenforced implements environment.LimitReporter: services limit neither processes nor disks.
func (e *Environment) Unenforced() []string {
	var names []string
	if e.Limits.Pids > 0 {
		names = append(names, "pids")
	}
	if e.Limits.Storage > 0 {
		names = append(names, "storage")
	}
	return names
}

// Cost implements environment.Environment.
func (e *Environment) Cost() float64 {
	if e.Price == nil {
		return 0
	}
	if gone := e.gone.Load(); gone != nil {
		return e.Price(gone.Sub(e.Since))
	}
	return e.Price(time.Since(e.Since))
}

// Gone notes that the service counts no more: the sandbox was destroyed.
func (e *Environment) Gone() {
	now := time.Now()
	e.gone.CompareAndSwap(nil, &now)
}

// Lost returns the error of an environment that is gone.
func Lost(format string, args ...any) error {
	return &environment.Error{Kind: environment.KindLost, Err: fmt.Errorf(format, args...)}
}

// CheckEnded returns a KindLost if the environment was ended.
func (e *Environment) CheckEnded() error {
	if e.ended.Load() {
		return Lost("%s was ended by Rollout", e.Name)
	}
	return nil
}

// LostNow returns the error of an operation that ended because the environment was ended meanwhile.
func (e *Environment) LostNow(ctx context.Context, err error) error {
	if err == nil || environment.KindOf(err) == environment.KindLost || ctx.Err() != nil {
		return err
	}
	if e.stopping.Load() || e.ended.Load() {
		return Lost("%s was ended by Rollout", e.Name)
	}
	return err
}

// CopyTo implements environment.Environment.
func (e *Environment) CopyTo(ctx context.Context, files ...environment.Copy) error {
	return e.LostNow(ctx, e.Environment.CopyTo(ctx, files...))
}

// CopyFrom implements environment.Environment.
func (e *Environment) CopyFrom(ctx context.Context, src, dst string, opts environment.ExtractOptions) (environment.Extracted, error) {
	out, err := e.Environment.CopyFrom(ctx, src, dst, opts)
	return out, e.LostNow(ctx, err)
}

// Exec implements environment.Environment.
func (e *Environment) Exec(ctx context.Context, script string, opts environment.ExecOptions) (int, error) {
	code, err := e.Environment.Exec(ctx, script, opts)
	return e.outcome(ctx, code, err)
}

// ExecTerminal implements environment.TerminalRunner.
func (e *Environment) ExecTerminal(ctx context.Context, script string, opts environment.ExecOptions, t environment.Terminal) (int, error) {
	code, err := e.Environment.ExecTerminal(ctx, script, opts, t)
	return e.outcome(ctx, code, err)
}

// outcome returns that of a command. One that was killed by Halt is lost.
func (e *Environment) outcome(ctx context.Context, code int, err error) (int, error) {
	if err == nil && e.stopping.Load() {
		return -1, Lost("%s was ended by Rollout", e.Name)
	}
	return code, e.LostNow(ctx, err)
}

// Halt ends all processes but the guest, which stays, and closes the connection. If that fails
// though the sandbox runs, as far as explain knows, the environment is as before. explain is
// podinit.Options.Explain.
func (e *Environment) Halt(ctx context.Context, explain func(context.Context) error) error {
	if !e.ended.Load() {
		e.stopping.Store(true) // commands that are killed now may return before KillAll does
		err := e.KillAll(ctx)
		if err == nil {
			err = e.Stay(ctx)
		}
		if err != nil && explain(ctx) == nil && !e.ended.Load() {
			e.stopping.Store(false)
			return err
		}
	}
	e.End()
	e.Close()
	return nil
}

// End marks the environment as ended.
func (e *Environment) End() { e.ended.Store(true) }

// CheckNetwork refuses a network whose list cannot be read.
func CheckNetwork(n environment.Network) error {
	if n.Mode != environment.NetworkAllowlist {
		return nil
	}
	if _, err := egress.Parse(n.Hosts); err != nil {
		return &environment.Error{Kind: environment.KindStart, Err: fmt.Errorf("allowed_hosts: %w", err)}
	}
	return nil
}
