package gateway

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
)

// Running reports whether a turn runs.
func (s *Session) Running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running > 0
}

// Turns returns the number of running turns.
func (s *Session) Turns() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int(s.running)
}

// Limited reports whether requests wait for the end of a limit.
func (s *Session) Limited() bool { return s.opts.Model.queue.isLimited() }

// Hold bounds the bodies that the session holds, in bytes.
func (s *Session) Hold(bound int64) { s.maxHeld = bound }

// Asker returns a function that asks a model for a turn, in a new session that waits for over an
// hour.
func Asker(m *Model) func() error {
	return func() error {
		s := NewSession(Options{Model: m, MaxWait: 1 << 42})
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/v1/chat/completions", strings.NewReader(`{"stream":true,"messages":[]}`))
		r.Header.Set("Authorization", "Bearer "+s.Token())
		s.serveHTTP(w, r)
		s.end(nil)
		if w.Code != http.StatusOK {
			return fmt.Errorf("status %d: %s", w.Code, w.Body)
		}
		return nil
	}
}
