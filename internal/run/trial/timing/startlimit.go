package timing

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/lib/awake"
)

// StartTimeout limits the start of an environment.
const StartTimeout = 5 * time.Minute

// ErrSlowStart is the cause of a context that ends because an environment has not started in time.
var ErrSlowStart = fmt.Errorf("the environment did not start within %s", StartTimeout)

// StartLimit limits the start of an environment. Time in which the provider waits for others does
// not count.
type StartLimit struct {
	ctx  context.Context //nolint:containedctx // ends when the time is over
	end  context.CancelCauseFunc
	left time.Duration

	mu    sync.Mutex
	since time.Time          // when the time was last resumed
	pause context.CancelFunc // nil: the time is paused
}

// NewStartLimit starts a limit of d. ctx ends with the cause ErrSlowStart when the time is over.
func NewStartLimit(parent context.Context, d time.Duration) (l *StartLimit, ctx context.Context, stop func()) {
	ctx, end := context.WithCancelCause(parent)
	l = &StartLimit{ctx: ctx, end: end, left: d}
	l.Wait(false)
	return l, ctx, func() { end(nil) }
}

// Wait pauses the time while the provider waits, and resumes it afterwards.
func (l *StartLimit) Wait(waits bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case waits && l.pause != nil:
		l.pause()
		l.pause = nil
		l.left -= time.Since(l.since)
	case !waits && l.pause == nil:
		running, pause := context.WithCancel(l.ctx)
		l.since, l.pause = time.Now(), pause
		left := l.left
		go func() {
			defer pause()
			if awake.Sleep(running, left) {
				l.end(ErrSlowStart)
			}
		}()
	}
}
