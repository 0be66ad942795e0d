package job

import (
	"context"
	"sync"

	"github.com/org/rollout-action/internal/core/result"
)

// Turns shares a number of workers among jobs that run at the same time. A trial waits for its
// turn, and the lowest rank comes first: so the trials of a task in all jobs run side by side.
type Turns struct {
	rank func(side int, key result.Key) int

	mu      sync.Mutex
	free    int
	absent  map[int]bool // the jobs that are awaited; no trial starts until it is empty
	waiting []*turn
}

// turn is a waiting trial.
type turn struct {
	side, rank int
	granted    chan struct{} // closed when the trial may start
}

// NewTurns returns the turns of a number of workers for the jobs in sides. Callers call Leave for
// each job when it has ended. rank orders the trials; of two with the same rank, the jobs take
// turns to be the first.
func NewTurns(workers int, sides []int, rank func(side int, key result.Key) int) *Turns {
	t := &Turns{rank: rank, free: workers, absent: map[int]bool{}}
	for _, side := range sides {
		t.absent[side] = true
	}
	return t
}

// Await holds trials back until each of these jobs has a waiting trial or has left, so that their
// next trials run side by side, too. No trial waits for another job, which may have none.
func (t *Turns) Await(sides []int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.absent)
	for _, side := range sides {
		t.absent[side] = true
	}
	t.grant()
}

// Leave records that no more trials of a job will wait.
func (t *Turns) Leave(side int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.absent, side)
	t.grant()
}

// Side returns the Options.Turn of one of the jobs.
func (t *Turns) Side(side int) func(key result.Key) Wait {
	return func(key result.Key) Wait {
		w := &turn{side: side, rank: t.rank(side, key), granted: make(chan struct{})}
		t.mu.Lock()
		defer t.mu.Unlock()
		t.waiting = append(t.waiting, w)
		delete(t.absent, side)
		t.grant()
		return func(ctx context.Context) (func(), bool) { return t.wait(ctx, w) }
	}
}

// wait waits for a turn.
func (t *Turns) wait(ctx context.Context, w *turn) (done func(), ok bool) {
	select {
	case <-w.granted:
		return sync.OnceFunc(t.done), true
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-w.granted: // at the same time
		t.free++
		t.grant()
	default:
		t.remove(w)
	}
	return nil, false
}

func (t *Turns) done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.free++
	t.grant()
}

// grant starts waiting trials while there are free workers, lowest rank first. t.mu is held.
func (t *Turns) grant() {
	for t.free > 0 && len(t.waiting) > 0 && len(t.absent) == 0 {
		first := t.waiting[0]
		for _, w := range t.waiting[1:] {
			if w.before(first) {
				first = w
			}
		}
		t.remove(first)
		t.free--
		close(first.granted)
	}
}

// before orders turns. Of two with the same rank, each side is the first every second time, so that
// neither always has the warmer caches.
func (w *turn) before(x *turn) bool {
	if w.rank != x.rank {
		return w.rank < x.rank
	}
	if w.rank%2 == 0 {
		return w.side < x.side
	}
	return w.side > x.side
}

func (t *Turns) remove(w *turn) {
	for i, x := range t.waiting {
		if x == w {
			t.waiting = append(t.waiting[:i], t.waiting[i+1:]...)
			return
		}
	}
}
