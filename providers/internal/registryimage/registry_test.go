package registryimage

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	ggcr "github.com/google/go-containerregistry/pkg/registry"

	"github.com/org/rollout-action/internal/core/environment"
)

// fakeRegistry is go-containerregistry's registry in this process, which also knows what each
// repository has: a blob has to be uploaded to a repository or mounted from another one.
type fakeRegistry struct {
	host  string
	inner http.Handler

	// before may answer a request.
	before atomic.Pointer[func(http.ResponseWriter, *http.Request) bool]
	// mounts: it takes blobs from other repositories.
	mounts bool

	mu       sync.Mutex
	blobs    map[string]bool // REPOSITORY DIGEST
	requests []string        // METHOD PATH?QUERY
}

func newRegistry(t *testing.T) *fakeRegistry {
	t.Helper()
	if os.Getenv("DOCKER_CONFIG") == "" || !strings.HasPrefix(os.Getenv("DOCKER_CONFIG"), os.TempDir()) {
		t.Setenv("DOCKER_CONFIG", t.TempDir())
	}
	r := &fakeRegistry{inner: ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0))), mounts: true, blobs: map[string]bool{}}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	r.host = strings.TrimPrefix(server.URL, "http://")
	return r
}

// ServeHTTP implements http.Handler.
func (r *fakeRegistry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	r.requests = append(r.requests, req.Method+" "+req.URL.RequestURI())
	r.mu.Unlock()
	if before := r.before.Load(); before != nil && (*before)(w, req) {
		return
	}
	repository, rest, isBlob := strings.Cut(strings.TrimPrefix(req.URL.Path, "/v2/"), "/blobs/")
	mount, from := req.URL.Query().Get("mount"), req.URL.Query().Get("from")
	r.mu.Lock()
	known := r.blobs[repository+" "+rest]
	mountable := r.mounts && mount != "" && r.blobs[from+" "+mount]
	if mountable {
		r.blobs[repository+" "+mount] = true
	}
	r.mu.Unlock()
	switch {
	case isBlob && (req.Method == http.MethodHead || req.Method == http.MethodGet) && !strings.HasPrefix(rest, "uploads/") && !known:
		http.NotFound(w, req)
		return
	case isBlob && mountable:
		w.WriteHeader(http.StatusCreated)
		return
	}
	status := &statusWriter{ResponseWriter: w}
	r.inner.ServeHTTP(status, req)
	if digest := req.URL.Query().Get("digest"); isBlob && req.Method == http.MethodPut && status.status == http.StatusCreated {
		r.mu.Lock()
		r.blobs[repository+" "+digest] = true
		r.mu.Unlock()
	}
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (s *statusWriter) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

// forget begins a new list of requests.
func (r *fakeRegistry) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = nil
}

// count returns how many requests had a method and part in their path and query.
func (r *fakeRegistry) count(method, part string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, request := range r.requests {
		if strings.HasPrefix(request, method+" ") && strings.Contains(request, part) {
			n++
		}
	}
	return n
}

// answers makes the registry answer requests whose method and path fit, as long as there are
// answers; 0 hangs up in the middle of the request.
func (r *fakeRegistry) answers(method, part string, statuses ...int) (asked *atomic.Int64) {
	asked = &atomic.Int64{}
	hook := func(w http.ResponseWriter, req *http.Request) bool {
		if req.Method != method || !strings.Contains(req.URL.RequestURI(), part) {
			return false
		}
		n := asked.Add(1)
		if int(n) > len(statuses) {
			return false
		}
		status := statuses[n-1]
		if status == 0 {
			_, _ = io.CopyN(io.Discard, req.Body, 1)
			panic(http.ErrAbortHandler)
		}
		if status == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "1")
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"errors":[{"code":"TEST","message":"said the test"}]}`)
		return true
	}
	r.before.Store(&hook)
	return asked
}

// config returns a configuration that waits for nothing.
func (r *fakeRegistry) config() Config {
	return Config{
		Registry: r.host + "/evals", Platform: "linux/amd64",
		pause: func(ctx context.Context, _ int, _ time.Duration) error { return ctx.Err() },
	}
}

func images(t *testing.T, c Config) *Images {
	t.Helper()
	i, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := i.Close(); err != nil {
			t.Error(err)
		}
	})
	return i
}

func reference(t *testing.T, ref string) name.Reference {
	t.Helper()
	parsed, err := name.ParseReference(ref, name.WeakValidation)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// login stores credentials as docker login does.
func login(t *testing.T, host string) {
	t.Helper()
	text := `{"auths":{"` + host + `":{"auth":"Ym9iOnNlY3JldA=="}}}` // bob:secret
	must(t, os.WriteFile(filepath.Join(os.Getenv("DOCKER_CONFIG"), "config.json"), []byte(text), 0o600))
}

// wantError checks an error's kind, whether it is transient, its chain and its text.
func wantError(t *testing.T, err error, kind environment.Kind, transient bool, is error, texts ...string) {
	t.Helper()
	if environment.KindOf(err) != kind || environment.IsTransient(err) != transient || is != nil && !errors.Is(err, is) {
		t.Errorf("kind %q, transient %t, want %q, %t, %v: %v", environment.KindOf(err), environment.IsTransient(err), kind, transient, is, err)
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the error has no %q: %v", text, err)
		}
	}
	if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "Ym9iOnNlY3JldA") {
		t.Errorf("the error has a password: %v", err)
	}
}
