package model

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"

	"github.com/org/rollout-action/internal/model/inspect"
	"github.com/org/rollout-action/internal/model/sse"
)

// Caller identifies to a Transport the session and the action of a request.
type Caller struct {
	Name   string // Options.Name
	API    API
	Action Action
	counts *counts
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

type counts struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *counts) next(text string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[text]++
	return c.n[text]
}

// calling returns the context of a request to the provider.
func (s *Session) calling(ctx context.Context, p protocol, action Action) context.Context {
	c := &Caller{Name: s.opts.Name, Action: action, counts: &s.counts}
	for _, api := range APIs {
		if protocolOf(api) == p {
			c.API = api
		}
	}
	return context.WithValue(ctx, callerKey{}, c)
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

// IsWhole reports whether the body of an answer is complete.
func IsWhole(api API, contentType string, body []byte) bool {
	p := protocolOf(api)
	if !sse.IsStream(contentType) {
		return inspect.Valid(body)
	}
	events, reader := sse.NewReader(bytes.NewReader(body)), p.reader(nil)
	for {
		e, err := nextEvent(events)
		if err != nil {
			a, whole := reader.answer()
			return a.Failed == "" && (whole || p == protocol(chat{}) && errors.Is(err, io.EOF) && a.Finish != "")
		}
		reader.read(e)
	}
}
