// Package awake measures the time in which this process could run. While the process is stopped
// (SIGSTOP, a frozen control group, a suspended machine), it cannot see what happens elsewhere, so
// that time must not make anything time out.
package awake

import (
	"context"
	"sync"
	"time"
)

const (
	// step is the length of one measurement.
	step = time.Second
	// A step that takes stopped longer than it should means that the process did not run, and
	// counts as one step. Shorter delays count in full, so that a machine under load does not
	// stretch time without bounds.
	stopped = 5 * time.Second
	// settle is the minimum remaining time, granted once, after the process runs again, to notice
	// events in the meantime.
	settle = 2 * time.Second
)

// Sleep waits for d of awake time or until ctx ends, and reports whether d is over.
func Sleep(ctx context.Context, d time.Duration) bool {
	settled := false
	for left := d; left > 0; {
		piece := min(step, left)
		begin := time.Now()
		timer := time.NewTimer(piece)
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-timer.C:
		}
		if took := time.Since(begin); took < piece+stopped {
			left -= took
			continue
		}
		left -= piece
		if !settled && left < settle {
			left, settled = min(settle, d), true
		}
	}
	return ctx.Err() == nil
}

// Count begins to count awake time. stop ends that and returns the time; it must be called once.
func Count() (stop func() time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	counted, last, over := time.Duration(0), time.Now(), make(chan struct{})
	go func() {
		defer close(over)
		for Sleep(ctx, step) {
			now := time.Now()
			took := now.Sub(last)
			if took >= step+stopped {
				took = step
			}
			counted, last = counted+took, now
		}
	}()
	return func() time.Duration {
		cancel()
		<-over
		rest := time.Since(last)
		if rest >= step+stopped {
			rest = step
		}
		return counted + rest
	}
}

// After returns a channel that is closed after d of awake time. It is never closed if ctx ends
// before.
func After(ctx context.Context, d time.Duration) <-chan struct{} {
	over := make(chan struct{})
	go func() {
		if Sleep(ctx, d) {
			close(over)
		}
	}()
	return over
}

// WithTimeout returns a context that ends after d of awake time, as context.WithTimeout does in
// real time.
func WithTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return WithTimeoutCause(parent, d, nil)
}

// WithTimeoutCause is WithTimeout with a cause, like context.WithTimeoutCause. The context reports
// no deadline, because the moment is not known in advance.
func WithTimeoutCause(parent context.Context, d time.Duration, cause error) (context.Context, context.CancelFunc) {
	inner, end := context.WithCancelCause(parent)
	if cause == nil {
		cause = context.DeadlineExceeded
	}
	c := &limited{Context: inner, done: make(chan struct{})}
	finish := func(err, cause error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.ended() == nil {
			end(cause)
			c.err = err
			close(c.done)
		}
	}
	if d <= 0 {
		finish(context.DeadlineExceeded, cause)
	}
	go func() {
		if Sleep(inner, d) {
			finish(context.DeadlineExceeded, cause)
		}
		_ = c.Err() // of a parent that has ended; inner has ended then, too
	}()
	return c, func() { finish(context.Canceled, nil) }
}

// limited is a context whose time is measured by Sleep. It has a separate Done channel: contexts
// derived from it would otherwise take their error from the embedded context.
type limited struct {
	context.Context //nolint:containedctx // this is a context
	done            chan struct{}

	mu  sync.Mutex
	err error
}

func (c *limited) Done() <-chan struct{} { return c.done }

func (c *limited) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended()
}

// ended returns the error, also of a parent that has just ended. c.mu is held.
func (c *limited) ended() error {
	if c.err == nil && c.Context.Err() != nil {
		c.err = c.Context.Err()
		close(c.done)
	}
	return c.err
}
