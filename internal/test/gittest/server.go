package gittest

import (
	"bytes"
	"io"
	"net/http"
	"net/http/cgi" //nolint:gosec // that was mended in Go 1.6.3
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Server serves all repositories below a directory as URL/NAME. Its behaviour can change while it
// runs.
type Server struct {
	URL  string
	http *httptest.Server

	mu       sync.Mutex
	requests []string
	// before may answer in place of git; it reports whether it did.
	before func(http.ResponseWriter, *http.Request) bool
	old    bool
}

// Serve starts a server, which ends with the test.
func Serve(tb testing.TB, root string) *Server {
	tb.Helper()
	out, err := exec.CommandContext(tb.Context(), "git", "--exec-path").Output()
	if err != nil {
		tb.Fatal(err)
	}
	backend := filepath.Join(strings.TrimSpace(string(out)), "git-http-backend")
	s := &Server{}
	s.http = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, req.Method+" "+req.URL.RequestURI())
		before, old := s.before, s.old
		s.mu.Unlock()
		if before != nil && before(w, req) {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		// CGI does not support chunked requests.
		req.Body, req.ContentLength, req.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
		env := append(clean(), "GIT_PROJECT_ROOT="+root, "GIT_HTTP_EXPORT_ALL=1")
		if protocol := req.Header.Get("Git-Protocol"); protocol != "" && !old {
			env = append(env, "GIT_PROTOCOL="+protocol)
		}
		handler := &cgi.Handler{Path: backend, Root: "/", Dir: root, Env: env, Stderr: io.Discard}
		handler.ServeHTTP(w, req)
	}))
	s.URL = s.http.URL
	tb.Cleanup(s.http.Close)
	return s
}

// Close stops the server.
func (s *Server) Close() { s.http.Close() }

// OldProtocol makes the server speak version 0 of git's protocol, in which the repository's
// configuration limits what may be fetched (uploadpack.allow*).
func (s *Server) OldProtocol() { s.mu.Lock(); s.old = true; s.mu.Unlock() }

// Before makes f see each request first; f reports whether it answered. nil removes it.
func (s *Server) Before(f func(http.ResponseWriter, *http.Request) bool) {
	s.mu.Lock()
	s.before = f
	s.mu.Unlock()
}

// Count returns the number of requests so far whose method and address contain text.
func (s *Server) Count(text string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, r := range s.requests {
		if strings.Contains(r, text) {
			n++
		}
	}
	return n
}
