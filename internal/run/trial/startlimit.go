package trial

import (
	"context"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/lib/awake"
	"github.com/org/rollout-action/internal/run/trial/judging"
)

// startLimit limits the start of an environment. Time in which the provider waits for others does
// not count.
type startLimit struct {
	ctx  context.Context //nolint:containedctx // ends when the time is over
	end  context.CancelCauseFunc
	left time.Duration

	mu    sync.Mutex
	since time.Time          // when the time was last resumed
	pause context.CancelFunc // nil: the time is paused
}

// newStartLimit starts a limit of d. ctx ends with the cause errSlowStart when the time is over.
func newStartLimit(parent context.Context, d time.Duration) (l *startLimit, ctx context.Context, stop func()) {
	ctx, end := context.WithCancelCause(parent)
	l = &startLimit{ctx: ctx, end: end, left: d}
	l.wait(false)
	return l, ctx, func() { end(nil) }
}

// wait pauses the time while the provider waits, and resumes it afterwards.
func (l *startLimit) wait(waits bool) {
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
				l.end(errSlowStart)
			}
		}()
	}
}

const (
	// lifetimeMargin covers everything without its own timeout: copies, retries, waits for the
	// place of a judge.
	lifetimeMargin = 6 * time.Hour
	// visitLifetime limits the time that a user may stay in an environment.
	visitLifetime = 7 * 24 * time.Hour
	maxLifetime   = 10 * 365 * 24 * time.Hour
)

// lifetime returns the maximum time that the environment is needed: twice the sum
// of all timeouts, because time in which this machine is suspended counts for the environment.
func (p *plan) lifetime() time.Duration {
	if p.stay > 0 {
		return p.stay
	}
	seconds := 0.0
	for _, d := range []time.Duration{p.timeouts.Install, p.timeouts.Execute, p.timeouts.Verify, p.timeouts.StartPeriod, p.timeouts.Healthcheck} {
		seconds += d.Seconds()
	}
	attempts := float64(judging.Attempts(p.job))
	for _, j := range p.spec.Judges {
		seconds += attempts * (j.TimeoutSec*p.job.TimeoutMultiplier + p.timeouts.Install.Seconds() + startTimeout.Seconds())
	}
	return time.Duration(min(2*seconds, maxLifetime.Seconds())*float64(time.Second)) + lifetimeMargin
}
