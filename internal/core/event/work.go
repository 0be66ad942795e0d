package event

import (
	"context"
	"sync"
	"sync/atomic"
)

// Work is a lengthy step outside of trials: fetching, hashing, merging. Its methods may be called
// by many goroutines.
type Work struct {
	What  string // is done, as the beginning of a line: "Checking tasks". It may be hostile
	Total int    // how many steps there are; 0: not known
	done  atomic.Int64
	end   func()
}

// Done returns the number of steps done.
func (w *Work) Done() int { return int(w.done.Load()) }

// Step counts a step as done.
func (w *Work) Step() { w.done.Add(1) }

// End ends the work. After it returns, the work is no longer shown. Only the first call counts.
func (w *Work) End() { w.end() }

type watchKey struct{}

// Watch returns a context under which Begin calls begin for each work. The function that begin
// returns is called once, when the work ends.
func Watch(ctx context.Context, begin func(*Work) (end func())) context.Context {
	return context.WithValue(ctx, watchKey{}, begin)
}

// Begin begins a work. The caller calls its End. The work is shown if ctx has a watcher.
func Begin(ctx context.Context, what string, total int) *Work {
	w := &Work{What: what, Total: total, end: func() {}}
	if begin, ok := ctx.Value(watchKey{}).(func(*Work) func()); ok {
		w.end = sync.OnceFunc(begin(w))
	}
	return w
}
