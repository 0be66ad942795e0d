// Package flight lets callers who want the same thing at the same time share one attempt at it.
// BuildKit's flightcontrol gives a caller who comes while an abandoned attempt ends an error after
// about 15 seconds, and reports progress as states, of which a reader may miss lines.
package flight

import (
	"context"
	"sync"
)

// Group is a set of attempts. The zero value has none.
type Group struct {
	mu  sync.Mutex
	now map[string]*flight
}

// flight is one attempt with its waiting callers.
type flight struct {
	mu        sync.Mutex
	listeners map[int]func(string)
	waiting   int
	next      int

	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// Do runs job, or joins the run that is under way for key. Its progress goes to the progress of
// everyone who waits, unless that is nil. The job's context ends when all who waited have gone.
func (f *Group) Do(ctx context.Context, key string, progress func(string), job func(context.Context, func(string)) error) error {
	f.mu.Lock()
	if f.now == nil {
		f.now = map[string]*flight{}
	}
	run, running := f.now[key]
	if !running {
		jobCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		run = &flight{listeners: map[int]func(string){}, cancel: cancel, done: make(chan struct{})}
		f.now[key] = run
		go func() {
			defer cancel()
			err := job(jobCtx, run.broadcast)
			f.mu.Lock()
			if f.now[key] == run {
				delete(f.now, key)
			}
			f.mu.Unlock()
			run.err = err
			close(run.done)
		}()
	}
	id := run.join(progress)
	f.mu.Unlock()

	select {
	case <-run.done:
		run.leave(id)
		return run.err
	case <-ctx.Done():
	}
	if f.abandon(key, run, id) {
		<-run.done // nothing half-made is left
	}
	return ctx.Err()
}

// abandon leaves a run, and cancels it if no other caller waits for it. Later callers start anew.
func (f *Group) abandon(key string, run *flight, id int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if run.leave(id) > 0 {
		return false
	}
	if f.now[key] == run {
		delete(f.now, key)
	}
	run.cancel()
	return true
}

func (r *flight) join(progress func(string)) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting++
	r.next++
	if progress != nil {
		r.listeners[r.next] = progress
	}
	return r.next
}

// leave returns how many still wait.
func (r *flight) leave(id int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting--
	delete(r.listeners, id)
	return r.waiting
}

// broadcast calls one listener at a time.
func (r *flight) broadcast(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, listener := range r.listeners {
		listener(line)
	}
}

// Waiting returns how many callers wait.
func (f *Group) Waiting() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, run := range f.now {
		run.mu.Lock()
		n += run.waiting
		run.mu.Unlock()
	}
	return n
}
