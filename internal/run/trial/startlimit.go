package trial

import (
	"context"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/lib/awake"
)

// startLimit bounds how long an environment may take to start. Time in which the provider waits for others does not count.
type startLimit struct {
	ctx  context.Context
	end  context.CancelCauseFunc
	left time.Duration

	mu    sync.Mutex
	since time.Time          // when the time began to run
	pause context.CancelFunc // nil: the time does not run
}

// newStartLimit begins to count. ctx ends with the cause errSlowStart when the time is over.
func newStartLimit(parent context.Context, d time.Duration) (l *startLimit, ctx context.Context, stop func()) {
	ctx, end := context.WithCancelCause(parent)
	l = &startLimit{ctx: ctx, end: end, left: d}
	l.wait(false)
	return l, ctx, func() { end(nil) }
}

// wait stops the time while the provider waits, and lets it go on afterwards.
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
	// lifetimeMargin is for everything that has no timeout of its own: copies, retries, waits for the place of a judge.
	lifetimeMargin = 6 * time.Hour
	// visitLifetime is how long somebody may stay in an environment.
	visitLifetime = 7 * 24 * time.Hour
	maxLifetime   = 10 * 365 * 24 * time.Hour
)

// lifetime returns how long the environment of this execution is needed at most: twice what all timeouts allow together, because
// time in which this machine is suspended counts for the environment.
func (x *execution) lifetime() time.Duration {
	if x.visit != nil {
		return visitLifetime
	}
	seconds := 0.0
	for _, d := range []time.Duration{x.timeouts.Install, x.timeouts.Execute, x.timeouts.Verify, x.timeouts.StartPeriod, x.timeouts.Healthcheck} {
		seconds += d.Seconds()
	}
	if x.judge == nil {
		attempts := float64(JudgeAttempts(x.job))
		for _, j := range x.spec.Judges {
			seconds += attempts * (j.TimeoutSec*x.job.TimeoutMultiplier + x.timeouts.Install.Seconds() + startTimeout.Seconds())
		}
	}
	return time.Duration(min(2*seconds, maxLifetime.Seconds())*float64(time.Second)) + lifetimeMargin
}
