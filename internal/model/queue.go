package model

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Delays after an answer that the rate is too high, if it does not name one.
const (
	firstDelay = time.Second
	maxDelay   = time.Minute
)

// queue admits the requests to one model. After the provider has said that there are too many, one request at a time tries again, so
// that not all come at once.
type queue struct {
	slots chan struct{} // nil: no bound

	mu        sync.Mutex
	notBefore time.Time
	delay     time.Duration // of the last limit; 0: there is none
	trying    bool          // one request tries whether the limit has ended
	changed   chan struct{} // is closed when one of these changes
}

func newQueue(bound int) *queue {
	q := &queue{changed: make(chan struct{})}
	if bound > 0 {
		q.slots = make(chan struct{}, bound)
	}
	return q
}

// enter waits until a request may be sent. The caller then calls leave.
func (q *queue) enter(ctx context.Context) error {
	for {
		q.mu.Lock()
		wait, changed := time.Until(q.notBefore), q.changed
		if q.delay == 0 || wait <= 0 && !q.trying {
			q.trying = q.delay > 0
			q.mu.Unlock()
			break
		}
		q.mu.Unlock()
		if wait <= 0 {
			wait = maxDelay // until the one that tries has left
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-changed:
			timer.Stop()
		case <-timer.C:
		}
	}
	if q.slots == nil {
		return nil
	}
	select {
	case q.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		q.passed(false)
		return context.Cause(ctx)
	}
}

// leave ends the place of a request that enter has admitted.
func (q *queue) leave() {
	if q.slots != nil {
		<-q.slots
	}
}

// passed says that a request was answered, so that others may follow. answered is false if it is not known whether the limit has ended.
func (q *queue) passed(answered bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if answered {
		q.delay = 0
	}
	q.trying = false
	q.change()
}

// limited says that the provider refused a request because there were too many. after is the delay that it asked for, or 0.
func (q *queue) limited(after time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.delay = min(max(firstDelay, 2*q.delay), maxDelay)
	if after <= 0 {
		after = q.delay/2 + rand.N(q.delay/2+1)
	}
	if until := time.Now().Add(after); until.After(q.notBefore) {
		q.notBefore = until
	}
	q.trying = false
	q.change()
}

func (q *queue) change() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// retryAfter returns the delay that an answer asks for, or 0.
func retryAfter(h http.Header) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 && ms < 1e9 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	text := h.Get("Retry-After")
	if sec, err := strconv.ParseFloat(text, 64); err == nil && sec > 0 && sec < 1e6 {
		return time.Duration(sec * float64(time.Second))
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}
