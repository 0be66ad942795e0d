package timing

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/lib/awake"
)

// Clock limits the time of work that runs in this process and, command by command, in an
// environment. While a command runs, the environment measures the time: a broken connection to it
// costs no time.
type Clock struct {
	ctx  context.Context //nolint:containedctx // ends with ErrTimeout when the time is over
	stop context.CancelCauseFunc

	mu    sync.Mutex
	left  time.Duration
	count func() time.Duration // the local time since run
	pause context.CancelFunc   // stops counting local time; nil while a command runs
}

// NewClock returns a running clock with a limit. The caller must call End.
func NewClock(ctx context.Context, limit time.Duration) *Clock {
	c := &Clock{left: limit}
	c.ctx, c.stop = context.WithCancelCause(ctx)
	c.run()
	return c
}

// Context returns a context that ends with environment.ErrTimeout when the time is over.
func (c *Clock) Context() context.Context { return c.ctx }

// End stops the clock. No command may be running.
func (c *Clock) End() {
	c.halt()
	c.stop(nil)
}

// run starts counting local time.
func (c *Clock) run() {
	c.mu.Lock()
	defer c.mu.Unlock()
	running, pause := context.WithCancel(c.ctx)
	c.count, c.pause = awake.Count(), pause
	over := awake.After(running, c.left)
	go func() {
		defer pause()
		select {
		case <-over:
			c.stop(environment.ErrTimeout)
		case <-running.Done():
		}
	}()
}

// halt stops counting local time, and returns the remaining time.
func (c *Clock) halt() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pause != nil {
		c.pause()
		c.left -= c.count()
		c.pause = nil
	}
	return c.left
}

// Exec runs a command in an environment as Exec does, at most until the time is over. The error is
// then that of the clock's context.
func (c *Clock) Exec(ctx context.Context, env environment.Environment, script string, opts environment.ExecOptions) (int, error) {
	left := c.halt()
	if c.ctx.Err() != nil || left <= 0 {
		c.stop(environment.ErrTimeout)
		return -1, context.Cause(c.ctx)
	}
	last := opts.Timeout <= 0 || left <= opts.Timeout
	if last {
		opts.Timeout = left
	}
	var ran time.Duration
	if opts.Ran == nil {
		opts.Ran = &ran
	}
	count := awake.Count()
	code, err := env.Exec(ctx, script, opts)
	here := count()
	c.mu.Lock()
	c.left -= cmp.Or(*opts.Ran, here)
	c.mu.Unlock()
	if last && errors.Is(err, environment.ErrTimeout) {
		c.stop(environment.ErrTimeout)
	} else {
		c.run()
	}
	return code, err
}

// Unmeasured returns the part of a step's time that the environment's clock did not measure: the
// delay of its output.
func Unmeasured(elapsed, ran time.Duration) time.Duration {
	if ran <= 0 {
		return 0
	}
	return max(0, elapsed-ran)
}
