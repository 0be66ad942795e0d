package model

import (
	"context"
	"sync"

	"github.com/org/rollout-action/internal/model/inspect"
)

// Caller identifies to a Transport the session and the action of a request.
type Caller struct {
	Name   string // of the session: the directory of its trial
	API    API
	Action Action
	counts *Counts
}

type callerKey struct{}

// CallerOf returns the caller of a request from its context; nil if the request belongs to no
// session.
func CallerOf(ctx context.Context) *Caller {
	c, _ := ctx.Value(callerKey{}).(*Caller)
	return c
}

// Count returns the number of calls with this text in the session, including this one.
func (c *Caller) Count(text string) int { return c.counts.next(text) }

// Counts counts the texts of a session's calls. The zero value is ready to use.
type Counts struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *Counts) next(text string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[text]++
	return c.n[text]
}

// WithCaller returns a context for a request of a session. counts are those of the session.
func WithCaller(ctx context.Context, name string, api API, action Action, counts *Counts) context.Context {
	return context.WithValue(ctx, callerKey{}, &Caller{Name: name, API: api, Action: action, counts: counts})
}

// MissError is returned by a Transport that answers from records, if no record fits.
type MissError struct {
	Difference string // from the nearest record
}

func (e *MissError) Error() string { return "nothing that was recorded fits: " + e.Difference }

// GatewayError is returned by a Transport for its own failures, not the provider's.
type GatewayError struct{ Err error }

func (e *GatewayError) Error() string { return e.Err.Error() }

func (e *GatewayError) Unwrap() error { return e.Err }

// ValidJSON reports whether a text is JSON, and not nested too deep to read it safely.
func ValidJSON(text []byte) bool { return inspect.Valid(text) }
