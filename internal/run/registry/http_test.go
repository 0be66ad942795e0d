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

	"context"
	"github.com/org/rollout-action/internal/lib/cache"
	"github.com/org/rollout-action/internal/run/registry"
	"io"
	"testing/synctest"
)

const small = `[{"name": "d", "version": "1", "tasks": [{"name": "t", "git_url": "https://example.org/x", "path": "p"}]}]`

// web is a web server, with the options to load registries from it.
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

func TestTransientFailuresAreRetried(t *testing.T) {
	for _, tc := range []struct {
		name   string
		answer func(n int, w http.ResponseWriter, req *http.Request)
		want   string // the error; "" means none
		asked  int32
	}{
		{"fails for a while", func(n int, w http.ResponseWriter, _ *http.Request) {
			if n < 4 {
				http.Error(w, "x", http.StatusBadGateway)
			}
			_, _ = w.Write([]byte(small))
		}, "", 4},
		{"always fails", func(_ int, w http.ResponseWriter, _ *http.Request) { http.Error(w, "x", http.StatusBadGateway) },
			"the registry URL cannot be loaded: the server answers 502 Bad Gateway", 4},
		{"asks for a retry soon", func(n int, w http.ResponseWriter, _ *http.Request) {
			if n == 1 {
				w.Header().Set("Retry-After", "0")
				w.WriteHeader(http.StatusTooManyRequests)
			}
			_, _ = w.Write([]byte(small))
		}, "", 2},
		{"asks for a retry in a day", func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "86400")
			w.WriteHeader(http.StatusServiceUnavailable)
		}, "the registry URL cannot be loaded: the server answers 503 Service Unavailable", 1},
		{"not found", func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
			"URL: the registry cannot be loaded: the server answers 404 Not Found", 1},
		{"closes the connection", func(n int, w http.ResponseWriter, _ *http.Request) {
			if n == 1 {
				w.Header().Set("Content-Length", "1000")
				_, _ = w.Write([]byte("["))
				panic(http.ErrAbortHandler)
			}
			_, _ = w.Write([]byte(small))
		}, "", 2},
		{"too large", func(_ int, w http.ResponseWriter, _ *http.Request) {
			for range 65 {
				_, _ = w.Write(make([]byte, 1<<20))
			}
		}, "the registry URL cannot be loaded: it is larger than 64 MiB", 1},
		{"no JSON", func(_ int, w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
			"URL:1:1: not valid JSON: invalid character '<' at start of value", 1},
		{"redirects to a file", func(_ int, w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, "file:///etc/passwd", http.StatusFound)
		},
			"URL: the registry cannot be loaded: it redirects away from https, or to something other than http or https", 1},
		{"redirects for ever", func(n int, w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, fmt.Sprintf("/registry.json?%d", n), http.StatusFound)
		}, "URL: the registry cannot be loaded: it redirects too often", 6},
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

func TestRedirectFromHTTPSToHTTPIsRefused(t *testing.T) {
	plain := newWeb(t, func(_ int, w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(small)) })
	safe := httptest.NewTLSServer(http.RedirectHandler(plain.server.URL, http.StatusFound))
	t.Cleanup(safe.Close)
	plain.opts.Transport = safe.Client().Transport
	_, err := registry.Load(t.Context(), safe.URL, plain.opts)
	if err == nil || !strings.HasSuffix(err.Error(), "it redirects away from https, or to something other than http or https") || plain.asked.Load() > 0 {
		t.Errorf("%v", err)
	}
}

func TestRegistryIsCached(t *testing.T) {
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
		t.Errorf("%d responses with status 304, want 2", notModified)
	}
	s.answer = func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }
	r, err := registry.Load(t.Context(), url, s.opts)
	want := regexp.MustCompile(`^the registry http://127\.0\.0\.1:\d+/registry\.json cannot be loaded: the server answers 500 Internal Server Error; using the copy of \d{4}-\d\d-\d\d \d\d:\d\d UTC$`)
	if err != nil || len(r.Datasets) != 1 || !want.MatchString(r.Notice) {
		t.Errorf("%+v, %v", r, err)
	}
	s.answer = func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }
	if _, err := registry.Load(t.Context(), url, s.opts); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("the copy was used after a refusal: %v", err)
	}
	s.server.Close()
	if r, err := registry.Load(t.Context(), url, s.opts); err != nil || !strings.Contains(r.Notice, "connection refused; using the copy of ") || strings.Contains(r.Notice, "secret") {
		t.Errorf("%+v, %v", r, err)
	}
	s.opts.Cache = cache.New(filepath.Join(t.TempDir(), "other"), 0)
	if _, err := registry.Load(t.Context(), url, s.opts); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("without a cached copy: %v", err)
	}
}

func TestRedirectsSendNoReferer(t *testing.T) {
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
		t.Errorf("the other server got the Referer %q", got)
	}
}

// A server that sends almost nothing is given up early, after one request, in favour of the cached
// copy. A slow one is not.
func TestStalledServerIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const text = `[{"name": "bench", "version": "1", "tasks": [{"name": "a", "path": "a"}]}]`
		asked := 0
		opts := registry.Options{Transport: answers(func() io.ReadCloser {
			asked++
			return io.NopCloser(&drip{text: text + strings.Repeat(" ", 1<<20), size: 1, every: time.Second})
		})}
		start := time.Now()
		_, err := registry.Load(t.Context(), "https://example.org/registry.json", opts)
		if err == nil || !strings.Contains(err.Error(), "https://example.org/registry.json cannot be loaded: the server sends less than 1024 bytes a second") {
			t.Errorf("a stalled server: %v", err)
		}
		if took := time.Since(start); took > time.Minute || asked != 1 {
			t.Errorf("given up after %v and %d requests", took, asked)
		}
		// 4 KiB every two seconds for 8 minutes.
		opts.Transport = answers(func() io.ReadCloser {
			return io.NopCloser(&drip{text: text + strings.Repeat(" ", 1<<20-len(text)), size: 4 << 10, every: 2 * time.Second})
		})
		start = time.Now()
		if r, err := registry.Load(t.Context(), "https://example.org/registry.json", opts); err != nil || len(r.Datasets) != 1 || time.Since(start) < 8*time.Minute {
			t.Errorf("a slow server: %v after %v", err, time.Since(start))
		}
		// As fast, but endless.
		opts.Transport = answers(func() io.ReadCloser {
			return io.NopCloser(&drip{text: strings.Repeat(" ", 32<<20), size: 4 << 10, every: 2 * time.Second})
		})
		start = time.Now()
		if _, err := registry.Load(t.Context(), "https://example.org/registry.json", opts); err == nil || !strings.Contains(err.Error(), "it took too long") || time.Since(start) > 11*time.Minute {
			t.Errorf("an endless response: %v after %v", err, time.Since(start))
		}
	})
}

// answers is a transport that answers every request with a body; the body ends with the request.
type answers func() io.ReadCloser

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Status: "200 OK", Header: http.Header{}, Body: untilDone{r.Context(), a()}, Request: r}, nil
}

type untilDone struct {
	ctx context.Context // of the request that this body belongs to
	io.ReadCloser
}

func (u untilDone) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.ReadCloser.Read(p)
}

// drip is a text that arrives in small parts.
type drip struct {
	text  string
	size  int
	every time.Duration
}

func (d *drip) Read(p []byte) (int, error) {
	if d.text == "" {
		return 0, io.EOF
	}
	n := copy(p, d.text[:min(d.size, len(d.text))])
	time.Sleep(d.every * time.Duration(n) / time.Duration(d.size))
	d.text = d.text[n:]
	return n, nil
}
