package timing

import (
	"context"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/lib/awake"
)

// CopyTimeout limits a copy into an environment, and other short calls that no configured timeout
// covers, so that none can block a job.
const CopyTimeout = 5 * time.Minute

// Time limits of collecting and tearing down, normally and once the job is cancelled. All graces
// count from the cancel, and end before the 5 s in which a cancelled job has to end (GitHub gives
// 7.5 s).
const (
	CollectTimeout  = 5 * time.Minute
	TeardownTimeout = 2 * time.Minute
	stuckGrace      = 1500 * time.Millisecond // for the running command to be killed
	CollectGrace    = 2500 * time.Millisecond
	TeardownGrace   = 4 * time.Second
)

// Deadlines limit work that must be done even after a cancel.
type Deadlines struct {
	hard     context.Context //nolint:containedctx // ends all work at once
	patience int             // multiplies the graces; at least 1
	Retry    func(environment.Failure)
	// afterCancel returns a channel for each grace that is closed when the grace is over. It may
	// only be called after the cancel.
	afterCancel func() map[time.Duration]<-chan struct{}
}

// NewDeadlines returns the deadlines of work under ctx. patience multiplies the graces after a
// cancel; 0 is 1. The end of hard ends all work at once. retry is called before a retry of a
// provider's call meanwhile. stop releases the resources of the deadlines.
func NewDeadlines(ctx, hard context.Context, patience int, retry func(environment.Failure)) (d Deadlines, stop func()) {
	patience = max(1, patience)
	counting, cancel := context.WithCancel(hard)
	d = Deadlines{hard: hard, patience: patience, Retry: retry, afterCancel: sync.OnceValue(func() map[time.Duration]<-chan struct{} {
		graces := map[time.Duration]<-chan struct{}{}
		for _, grace := range []time.Duration{stuckGrace, CollectGrace, TeardownGrace} {
			graces[grace] = awake.After(counting, grace*time.Duration(patience))
		}
		return graces
	})}
	release := context.AfterFunc(ctx, func() { d.afterCancel() })
	return d, func() { release(); cancel() }
}

// Cleanup returns a context for work that must be done even after a cancel of ctx. It ends after
// normal, or grace after the cancel, or when the job is told to stop at once.
func (d Deadlines) Cleanup(ctx context.Context, normal, grace time.Duration) (context.Context, context.CancelFunc) {
	c, cancel := awake.WithTimeout(d.hard, normal)
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-c.Done():
		case <-d.afterCancel()[grace]:
		}
		cancel()
	})
	return environment.WithRetryNotify(c, d.Retry), func() { stop(); cancel() }
}

// DestroyOnCancel ends the environment if it does not react when ctx is cancelled, even if a step
// still waits for it: it destroys it, or stops it if preserve is set. stop ends the watch and
// reports whether the environment was ended.
func (d Deadlines) DestroyOnCancel(ctx context.Context, env environment.Environment, preserve bool) (stop func() (ended bool)) {
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
		c, cancel := awake.WithTimeout(d.hard, (TeardownGrace-stuckGrace)*time.Duration(d.patience))
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
