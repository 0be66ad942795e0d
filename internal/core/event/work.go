package event

import (
	"context"
	"sync"
	"sync/atomic"
)

// Work is something outside of trials that may take long: fetching, hashing, merging. Its methods
// may be called by many goroutines.
type Work struct {
	What  string // is done, as the beginning of a line: "Checking tasks". It may be hostile
	Total int    // how many steps there are; 0: not known
	done  atomic.Int64
	end   func()
}

// Done returns how many steps are done.
func (w *Work) Done() int { return int(w.done.Load()) }

// Step adds a step that is done.
func (w *Work) Step() { w.done.Add(1) }

// End ends the work. When it returns, nothing is shown of it any more. Only the first call counts.
func (w *Work) End() { w.end() }

type watchKey struct{}

// Watch returns a context with which begin is called for each work that begins. The function that
// begin returns is called once, when the work ends.
func Watch(ctx context.Context, begin func(*Work) (end func())) context.Context {
	return context.WithValue(ctx, watchKey{}, begin)
}

// Begin begins a work. The caller calls its End. Whoever watches ctx may show it; nobody has to.
func Begin(ctx context.Context, what string, total int) *Work {
	w := &Work{What: what, Total: total, end: func() {}}
	if begin, ok := ctx.Value(watchKey{}).(func(*Work) func()); ok {
		w.end = sync.OnceFunc(begin(w))
	}
	return w
}
