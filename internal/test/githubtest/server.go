package githubtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Server is a GitHub that initially has only two tokens. Its methods and the API are safe for
// concurrent use.
type Server struct {
	// URL is the address of the API, like GITHUB_API_URL; StorageURL is the address for downloads
	// of artifacts, on another host as far as HTTP is concerned. New and Serve set both.
	URL        string
	StorageURL string
	// Now is the server's clock; nil is the real one. Set it before the first request.
	Now func() time.Time
	// TreeLimit is the maximum number of entries in the listing of a tree; 0 is GitHub's limit.
	TreeLimit int

	mu          sync.Mutex
	tokens      map[string]Access
	repos       map[string]*repo // by the name in lower case
	lastID      int64
	requests    []Request
	before      func(w http.ResponseWriter, r *http.Request) bool
	rate        *rate
	secondary   []secondary
	noGraphQL   bool
	refuseBlobs int
	close       []func()
}

// Request is a request that the server received. Path and Query are as the client sent them.
type Request struct {
	Method, Path, Query string
	Header              http.Header
	Body                string
	Status              int
	Storage             bool // to StorageURL, not the API
}

// NewHandler returns a server that does not listen. It is an http.Handler for the API, and Storage
// returns the one for StorageURL. It is also an http.RoundTripper that reaches both without a
// network, for bubbles of testing/synctest.
func NewHandler() *Server {
	return &Server{
		URL: "http://api.invalid", StorageURL: "http://storage.invalid",
		tokens: map[string]Access{WriteToken: Workflow(), ReadToken: Workflow().ReadOnly()},
		repos:  map[string]*repo{},
		lastID: 1000,
	}
}

// New returns a server that is closed at the end of the test.
func New(t testing.TB) *Server {
	t.Helper()
	s := NewHandler()
	api := httptest.NewServer(s)
	t.Cleanup(api.Close)
	storage := httptest.NewServer(s.Storage())
	t.Cleanup(storage.Close)
	s.URL, s.StorageURL = api.URL, storage.URL
	return s
}

// Serve returns a server that listens on addr ("172.17.0.1:0"; the storage on another port of the
// same host) until it is closed. It is for tests whose clients are other processes, such as in
// containers.
func Serve(addr string) (*Server, error) {
	s := NewHandler()
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	if s.URL, err = s.listen(addr, s); err != nil {
		return nil, err
	}
	if s.StorageURL, err = s.listen(net.JoinHostPort(host, "0"), s.Storage()); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Server) listen(addr string, handler http.Handler) (string, error) {
	var config net.ListenConfig
	listener, err := config.Listen(context.Background(), "tcp", addr)
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // ends with ErrServerClosed
	}()
	s.close = append(s.close, func() {
		_ = server.Close() // the server ends anyway
		<-done
	})
	return "http://" + listener.Addr().String(), nil
}

// Close stops a server that Serve started.
func (s *Server) Close() {
	for _, end := range s.close {
		end()
	}
}

// Before makes f see each request of the API first; f returns true if it has answered. f may call
// the server's methods. nil removes it.
func (s *Server) Before(f func(w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = f
}

// Requests returns all requests so far, in the order in which they were answered.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Seen returns all requests so far as "GET /path", those to the storage as "GET storage /path".
func (s *Server) Seen() []string {
	var out []string
	for _, r := range s.Requests() {
		line := r.Method + " " + r.Path
		if r.Storage {
			line = r.Method + " storage " + r.Path
		}
		out = append(out, line)
	}
	return out
}

// Forget clears Requests.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = nil
}

// now returns the server's time; like GitHub's, it has whole seconds.
func (s *Server) now() time.Time {
	if s.Now != nil {
		return s.Now().UTC().Truncate(time.Second)
	}
	return time.Now().UTC().Truncate(time.Second)
}

// nextID returns a new id. The caller holds mu.
func (s *Server) nextID() int64 {
	s.lastID++
	return s.lastID
}

// RoundTrip implements http.RoundTripper.
func (s *Server) RoundTrip(r *http.Request) (*http.Response, error) {
	in := r.Clone(r.Context())
	if in.Body == nil {
		in.Body = http.NoBody // as on a server
	}
	rec := httptest.NewRecorder()
	switch "http://" + r.URL.Host {
	case s.URL:
		s.ServeHTTP(rec, in)
	case s.StorageURL:
		s.Storage().ServeHTTP(rec, in)
	default:
		return nil, fmt.Errorf("dial %s: no such host", r.URL.Host)
	}
	return rec.Result(), nil
}

// maxBody limits the body of a request.
const maxBody = 8 << 20

// ServeHTTP serves the API.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	rec := &recorder{ResponseWriter: w, status: http.StatusOK}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.requests = append(s.requests, Request{
			Method: r.Method, Path: r.URL.EscapedPath(), Query: r.URL.RawQuery, Header: r.Header.Clone(), Body: string(body), Status: rec.status,
		})
	}()
	s.mu.Lock()
	before := s.before
	s.mu.Unlock()
	if before != nil && before(rec, r) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer(rec, r, body)
}

// recorder records the status.
type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

// request is a request in progress.
type request struct {
	*http.Request
	server *Server
	access Access
	known  bool // the token is known
	base   string
	body   []byte
	repo   *repo
}

// reply is a response: a value for JSON, or a redirect.
type reply struct {
	status int
	value  any
	header http.Header
}

// answer makes the initial checks and finds the route. The caller holds mu.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, body []byte) {
	if r.Host == "" {
		r.Host = r.URL.Host
	}
	q := &request{Request: r, server: s, body: body, base: "http://" + r.Host}
	path := r.URL.EscapedPath()
	if below, ok := strings.CutPrefix(path, "/api/v3/"); ok { // the path on an enterprise server
		q.base += "/api/v3"
		path = "/" + below
	} else if below, ok := strings.CutPrefix(path, "/api/graphql"); ok {
		path = "/graphql" + below
	}
	token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !bearer { // octokit sends this
		token, bearer = strings.CutPrefix(token, "token ")
	}
	q.access, q.known = s.tokens[token]
	w.Header().Set("X-GitHub-Request-Id", fmt.Sprintf("FAKE:%d", len(s.requests)+1))
	switch {
	case r.UserAgent() == "" || strings.HasPrefix(r.UserAgent(), "Go-http-client"):
		// GitHub refuses requests without a user agent; this server also refuses Go's default.
		send(w, problem(http.StatusForbidden, "Request forbidden by administrative rules. Please make sure your request has a User-Agent header"))
		return
	case bearer && !q.known:
		send(w, problem(http.StatusUnauthorized, "Bad credentials"))
		return
	}
	if refusal, ok := s.limit(w, q); ok {
		send(w, refusal)
		return
	}
	send(w, q.route(path))
}

// route finds the handler for a path.
func (q *request) route(path string) reply {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	for i, part := range parts {
		decoded, err := url.PathUnescape(part)
		if err != nil {
			return notFound()
		}
		parts[i] = decoded
	}
	switch {
	case path == "/graphql":
		return q.graphql()
	case path == "/user":
		return q.user()
	case len(parts) >= 3 && parts[0] == "repos":
		return q.inRepo(parts[1]+"/"+parts[2], parts[3:])
	}
	return notFound()
}

// route is one path below a repository; "*" matches any one part.
type route struct {
	method, path string
	answer       func(q *request, args []string) reply
}

var routes = []route{
	{http.MethodGet, "", (*request).getRepo},
	{http.MethodGet, "issues/*/comments", (*request).listComments},
	{http.MethodPost, "issues/*/comments", (*request).createComment},
	{http.MethodGet, "issues/comments/*", (*request).getComment},
	{http.MethodPatch, "issues/comments/*", (*request).editComment},
	{http.MethodDelete, "issues/comments/*", (*request).deleteComment},
	{http.MethodGet, "collaborators/*/permission", (*request).permission},
	{http.MethodGet, "pulls", (*request).listPulls},
	{http.MethodGet, "pulls/*", (*request).getPull},
	{http.MethodGet, "compare/*", (*request).compare},
	{http.MethodGet, "commits", (*request).listCommits},
	{http.MethodGet, "commits/*", (*request).getCommit},
	{http.MethodGet, "commits/*/branches-where-head", (*request).branchesAt},
	{http.MethodGet, "commits/*/pulls", (*request).pullsWith},
	{http.MethodGet, "git/commits/*", (*request).getGitCommit},
	{http.MethodGet, "git/trees/*", (*request).getTree},
	{http.MethodGet, "tags", (*request).listTags},
	{http.MethodGet, "actions/workflows/*/runs", (*request).listWorkflowRuns},
	{http.MethodGet, "actions/runs", (*request).listRuns},
	{http.MethodGet, "actions/runs/*", (*request).getRun},
	{http.MethodGet, "actions/runs/*/artifacts", (*request).listRunArtifacts},
	{http.MethodGet, "actions/artifacts", (*request).listArtifacts},
	{http.MethodGet, "actions/artifacts/*", (*request).getArtifact},
	{http.MethodGet, "actions/artifacts/*/zip", (*request).downloadArtifact},
}

// inRepo answers requests below /repos/owner/name.
func (q *request) inRepo(name string, parts []string) reply {
	q.repo = q.server.repos[strings.ToLower(name)]
	if q.repo == nil || q.repo.private && !q.known {
		return notFound()
	}
	for _, r := range routes {
		if args, ok := match(r.path, parts); ok && r.method == q.Method {
			return r.answer(q, args)
		}
	}
	return notFound()
}

// match compares parts with a pattern; args are the parts that its stars match.
func match(pattern string, parts []string) (args []string, ok bool) {
	var want []string
	if pattern != "" {
		want = strings.Split(pattern, "/")
	}
	if len(want) != len(parts) {
		return nil, false
	}
	for i := range want {
		if want[i] == "*" {
			args = append(args, parts[i])
		} else if want[i] != parts[i] {
			return nil, false
		}
	}
	return args, true
}

// send writes the reply.
func send(w http.ResponseWriter, r reply) {
	for name, values := range r.header {
		w.Header()[name] = values
	}
	if r.value == nil {
		w.WriteHeader(r.status)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(r.status)
	_ = json.NewEncoder(w).Encode(r.value) // the client may be gone
}

func ok(value any) reply { return reply{status: http.StatusOK, value: value} }

// problem returns an error in GitHub's form.
func problem(status int, message string) reply {
	return reply{status: status, value: map[string]any{
		"message": message, "documentation_url": "https://docs.github.com/rest", "status": fmt.Sprint(status),
	}}
}

func notFound() reply { return problem(http.StatusNotFound, "Not Found") }

// invalid returns the response to an invalid value.
func invalid(resource, field, message string) reply {
	return reply{status: http.StatusUnprocessableEntity, value: map[string]any{
		"message": "Validation Failed",
		"errors": []map[string]string{{
			"resource": resource, "code": "unprocessable", "field": field, "message": message,
		}},
		"documentation_url": "https://docs.github.com/rest", "status": "422",
	}}
}
