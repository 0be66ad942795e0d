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

// Caller tells a Transport who sends a request and what the request asks for.
type Caller struct {
	Name   string // Options.Name
	API    API
	Action Action
	counts *counts
}

type callerKey struct{}

// CallerOf returns the caller of a request by its context; nil if it is of no session.
func CallerOf(ctx context.Context) *Caller {
	c, _ := ctx.Value(callerKey{}).(*Caller)
	return c
}

// Count returns how often it was called with this text in the session, this call included.
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

// MissError is returned by a Transport that answers from records and has none that fits.
type MissError struct {
	Difference string // from the nearest record
}

func (e *MissError) Error() string { return "nothing that was recorded fits: " + e.Difference }

// GatewayError is returned by a Transport that failed itself, and not the provider.
type GatewayError struct{ Err error }

func (e *GatewayError) Error() string { return e.Err.Error() }

func (e *GatewayError) Unwrap() error { return e.Err }

// ValidJSON reports whether a text is JSON that can be read: not nested so deep that reading it
// needs more memory than there is.
func ValidJSON(text []byte) bool { return inspect.Valid(text) }

// IsWhole reports whether the body of an answer has come to its end.
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
