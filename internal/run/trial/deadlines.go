package trial

import (
	"context"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/lib/awake"
)

// Time limits of collecting and tearing down, normally and once the job is cancelled. All graces
// count from the cancel, and end before the 5 s in which a cancelled job has to end (GitHub gives
// 7.5 s).
const (
	collectTimeout  = 5 * time.Minute
	teardownTimeout = 2 * time.Minute
	stuckGrace      = 1500 * time.Millisecond // for the running command to be killed
	collectGrace    = 2500 * time.Millisecond
	teardownGrace   = 4 * time.Second
)

// deadlines limit work that must be done even after a cancel.
type deadlines struct {
	hard     context.Context //nolint:containedctx // ends all work at once
	patience int             // Options.Patience
	retry    func(environment.Failure)
	// afterCancel returns a channel for each grace that is closed when the grace is over. It may
	// only be called after the cancel.
	afterCancel func() map[time.Duration]<-chan struct{}
}

// newDeadlines returns the deadlines of work under ctx. stop releases their resources.
func newDeadlines(ctx context.Context, opts Options, retry func(environment.Failure)) (d deadlines, stop func()) {
	hard, patience := opts.Hard, max(1, opts.Patience)
	counting, cancel := context.WithCancel(hard)
	d = deadlines{hard: hard, patience: patience, retry: retry, afterCancel: sync.OnceValue(func() map[time.Duration]<-chan struct{} {
		graces := map[time.Duration]<-chan struct{}{}
		for _, grace := range []time.Duration{stuckGrace, collectGrace, teardownGrace} {
			graces[grace] = awake.After(counting, grace*time.Duration(patience))
		}
		return graces
	})}
	release := context.AfterFunc(ctx, func() { d.afterCancel() })
	return d, func() { release(); cancel() }
}

// cleanup returns a context for work that must be done even after a cancel of ctx. It ends after
// normal, or grace after the cancel, or when the job is told to stop at once.
func (d deadlines) cleanup(ctx context.Context, normal, grace time.Duration) (context.Context, context.CancelFunc) {
	c, cancel := awake.WithTimeout(d.hard, normal)
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-c.Done():
		case <-d.afterCancel()[grace]:
		}
		cancel()
	})
	return environment.WithRetryNotify(c, d.retry), func() { stop(); cancel() }
}

// destroyOnCancel ends the environment if it does not react when ctx is cancelled, even if a step
// still waits for it: it destroys it, or stops it if preserve is set. stop ends the watch and
// reports whether the environment was ended.
func (d deadlines) destroyOnCancel(ctx context.Context, env environment.Environment, preserve bool) (stop func() (ended bool)) {
	over, cancel := context.WithCancel(d.hard)
	ended := make(chan bool, 1)
	unwatch := context.AfterFunc(ctx, func() {
		done := false
		defer func() {
			_ = recover() // a provider's bug, which teardown will find again
			ended <- done
		}()
		select {
		case <-over.Done():
			return
		case <-d.afterCancel()[stuckGrace]:
		}
		c, cancel := awake.WithTimeout(d.hard, (teardownGrace-stuckGrace)*time.Duration(d.patience))
		defer cancel()
		end := env.Destroy
		if preserve {
			end = env.Stop
		}
		done = end(c) == nil // if not, teardown tries again, and reports
	})
	return func() bool {
		defer cancel()
		if unwatch() {
			return false
		}
		cancel()
		return <-ended
	}
}
