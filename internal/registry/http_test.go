package registry_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/cache"
	"github.com/org/rollout-action/internal/registry"
)

const small = `[{"name": "d", "version": "1", "tasks": [{"name": "t", "git_url": "https://example.org/x", "path": "p"}]}]`

// web is a web server, and how registries are loaded from it.
type web struct {
	*testing.T
	server *httptest.Server
	asked  atomic.Int32
	answer func(n int, w http.ResponseWriter, req *http.Request)
	opts   registry.Options
}

func newWeb(t *testing.T, answer func(n int, w http.ResponseWriter, req *http.Request)) *web {
	t.Helper()
	s := &web{T: t, answer: answer}
	s.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { s.answer(int(s.asked.Add(1)), w, req) }))
	t.Cleanup(s.server.Close)
	s.opts = registry.Options{Cache: cache.New(filepath.Join(t.TempDir(), "cache"), 0), Delay: time.Millisecond}
	return s
}

func TestAServerIsAskedAgain(t *testing.T) {
	for _, tc := range []struct {
		name   string
		answer func(n int, w http.ResponseWriter, req *http.Request)
		want   string // the error; "" is: none
		asked  int32
	}{
		{"it fails for a while", func(n int, w http.ResponseWriter, _ *http.Request) {
			if n < 4 {
				http.Error(w, "x", http.StatusBadGateway)
			}
			_, _ = w.Write([]byte(small))
		}, "", 4},
		{"it fails", func(_ int, w http.ResponseWriter, _ *http.Request) { http.Error(w, "x", http.StatusBadGateway) },
			"the registry URL cannot be had: the server answers 502 Bad Gateway", 4},
		{"it has too much to do", func(n int, w http.ResponseWriter, _ *http.Request) {
			if n == 1 {
				w.Header().Set("Retry-After", "0")
				w.WriteHeader(http.StatusTooManyRequests)
			}
			_, _ = w.Write([]byte(small))
		}, "", 2},
		{"it wants to be left alone for a day", func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "86400")
			w.WriteHeader(http.StatusServiceUnavailable)
		}, "the registry URL cannot be had: the server answers 503 Service Unavailable", 1},
		{"there is none", func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
			"URL: the registry cannot be had: the server answers 404 Not Found", 1},
		{"it hangs up", func(n int, w http.ResponseWriter, _ *http.Request) {
			if n == 1 {
				w.Header().Set("Content-Length", "1000")
				_, _ = w.Write([]byte("["))
				panic(http.ErrAbortHandler)
			}
			_, _ = w.Write([]byte(small))
		}, "", 2},
		{"it is too large", func(_ int, w http.ResponseWriter, _ *http.Request) {
			for range 65 {
				_, _ = w.Write(make([]byte, 1<<20))
			}
		}, "the registry URL cannot be had: it is larger than 64 MiB", 1},
		{"it says something else", func(_ int, w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
			"URL:1:1: not valid JSON: invalid character '<' at start of value", 1},
		{"it leads to a file", func(_ int, w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, "file:///etc/passwd", http.StatusFound)
		},
			"URL: the registry cannot be had: it leads away from https, or somewhere that is no web address", 1},
		{"it leads on and on", func(n int, w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, fmt.Sprintf("/registry.json?%d", n), http.StatusFound)
		}, "URL: the registry cannot be had: it leads on and on", 6},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newWeb(t, tc.answer)
			r, err := registry.Load(t.Context(), s.server.URL+"/registry.json", s.opts)
			want := strings.ReplaceAll(tc.want, "URL", s.server.URL+"/registry.json")
			if tc.want == "" && (err != nil || len(r.Datasets) != 1 || !r.Remote()) || tc.want != "" && (err == nil || err.Error() != want) {
				t.Errorf("%v\nwant %s", err, want)
			}
			if n := s.asked.Load(); n != tc.asked {
				t.Errorf("asked %d times, want %d", n, tc.asked)
			}
		})
	}
}

func TestARedirectFromHTTPSIsNotFollowedToHTTP(t *testing.T) {
	plain := newWeb(t, func(_ int, w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(small)) })
	safe := httptest.NewTLSServer(http.RedirectHandler(plain.server.URL, http.StatusFound))
	t.Cleanup(safe.Close)
	plain.opts.Transport = safe.Client().Transport
	_, err := registry.Load(t.Context(), safe.URL, plain.opts)
	if err == nil || !strings.HasSuffix(err.Error(), "it leads away from https, or somewhere that is no web address") || plain.asked.Load() > 0 {
		t.Errorf("%v", err)
	}
}

func TestARegistryIsKept(t *testing.T) {
	notModified := 0
	s := newWeb(t, func(_ int, w http.ResponseWriter, req *http.Request) {
		w.Header().Set("ETag", `"1"`)
		if req.Header.Get("If-None-Match") == `"1"` {
			notModified++
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = w.Write([]byte(small))
	})
	url := strings.Replace(s.server.URL, "http://", "http://user:secret@", 1) + "/registry.json?token=secret"
	for range 3 {
		if r, err := registry.Load(t.Context(), url, s.opts); err != nil || len(r.Datasets) != 1 || r.Notice != "" || strings.Contains(r.Source, "secret") {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	if notModified != 2 {
		t.Errorf("%d answers that nothing changed, want 2", notModified)
	}
	s.answer = func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }
	r, err := registry.Load(t.Context(), url, s.opts)
	want := regexp.MustCompile(`^the registry http://127\.0\.0\.1:\d+/registry\.json cannot be had: the server answers 500 Internal Server Error; the copy of \d{4}-\d\d-\d\d \d\d:\d\d UTC is used$`)
	if err != nil || len(r.Datasets) != 1 || !want.MatchString(r.Notice) {
		t.Errorf("%+v, %v", r, err)
	}
	s.answer = func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }
	if _, err := registry.Load(t.Context(), url, s.opts); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("a refusal is no failure of the network: %v", err)
	}
	s.server.Close()
	if r, err := registry.Load(t.Context(), url, s.opts); err != nil || !strings.Contains(r.Notice, "connection refused; the copy of ") || strings.Contains(r.Notice, "secret") {
		t.Errorf("%+v, %v", r, err)
	}
	s.opts.Cache = cache.New(filepath.Join(t.TempDir(), "other"), 0)
	if _, err := registry.Load(t.Context(), url, s.opts); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("nothing is kept, and yet: %v", err)
	}
}

func TestARedirectDoesNotTellWhereItCameFrom(t *testing.T) {
	var referer atomic.Value
	there := newWeb(t, func(_ int, w http.ResponseWriter, req *http.Request) {
		referer.Store(req.Header.Get("Referer"))
		_, _ = w.Write([]byte(small))
	})
	here := newWeb(t, func(_ int, w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, there.server.URL, http.StatusFound)
	})
	if _, err := registry.Load(t.Context(), here.server.URL+"/registry.json?token=secret", here.opts); err != nil {
		t.Fatal(err)
	}
	if got := referer.Load(); got != "" {
		t.Errorf("the other server was told %q", got)
	}
}
