package gateway

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Delays after a refusal because of a rate limit, if it names none.
const (
	firstDelay = time.Second
	maxDelay   = time.Minute
)

// queue admits the requests to one model. After the provider has refused a request because of a
// rate limit, one request at a time tries again.
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

// place is a request's place in a queue.
type place struct {
	q *queue
	// tries: the request tests whether a limit has ended. The answers of others that run then do
	// not show that: they were sent before the limit.
	tries bool
}

// enter waits until a request may be sent. The caller then calls one of answered, limited and
// failed, and leave.
func (q *queue) enter(ctx context.Context) (*place, error) {
	p := &place{q: q}
	for {
		q.mu.Lock()
		wait, changed := time.Until(q.notBefore), q.changed
		if q.delay == 0 || wait <= 0 && !q.trying {
			p.tries = q.delay > 0
			q.trying = p.tries
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
			return nil, context.Cause(ctx)
		case <-changed:
			timer.Stop()
		case <-timer.C:
		}
	}
	if q.slots == nil {
		return p, nil
	}
	select {
	case q.slots <- struct{}{}:
		return p, nil
	case <-ctx.Done():
		p.failed()
		return nil, context.Cause(ctx)
	}
}

// isLimited reports whether the provider has refused requests and accepted none since.
func (q *queue) isLimited() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.delay > 0
}

// leave frees the request's place.
func (p *place) leave() {
	if p.q.slots != nil {
		<-p.q.slots
	}
}

// answered records that the provider has accepted the request.
func (p *place) answered() { p.tried(func() { p.q.delay = 0 }) }

// failed records that the request has ended without showing whether a limit has ended.
func (p *place) failed() { p.tried(func() {}) }

// tried ends the test of a limit, applies change, and lets other requests go on.
func (p *place) tried(change func()) {
	if !p.tries {
		return
	}
	p.q.mu.Lock()
	defer p.q.mu.Unlock()
	change()
	p.q.trying, p.tries = false, false
	p.q.change()
}

// limited records that the provider refused the request because of a rate limit. after is the delay
// that it asked for, or 0. Refusals of requests that ran together count as one limit.
func (p *place) limited(after time.Duration) {
	q := p.q
	q.mu.Lock()
	defer q.mu.Unlock()
	first := p.tries || q.delay == 0
	if first {
		q.delay = min(max(firstDelay, 2*q.delay), maxDelay)
	}
	if first && after <= 0 {
		after = q.delay/2 + rand.N(q.delay/2+1)
	}
	if until := time.Now().Add(after); until.After(q.notBefore) {
		q.notBefore = until
	}
	if p.tries {
		q.trying, p.tries = false, false
	}
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
