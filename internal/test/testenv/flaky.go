package testenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"testing"

	"github.com/docker/docker/client"
)

// Flaky is an unreliable Docker engine: a proxy in front of the real one. DOCKER_HOST points to it
// until the test ends. It fails requests about containers and commands in all ways in which an
// engine or a proxy may: with a meaningless status, by closing the connection before or after the
// request was carried out, and in the middle of a response.
type Flaky struct {
	mu     sync.Mutex
	dice   *rand.Rand
	rate   float64
	only   *regexp.Regexp
	refuse *regexp.Regexp // nil: nothing
	late   *regexp.Regexp // nil: nothing
	held   *http.Request  // the late one, until it is carried out
	failed map[string]int
	engine http.RoundTripper
}

// errInjected is the error of the proxy's failures.
var errInjected = errors.New("injected")

// flakyCalls matches requests that may fail. Requests about the engine itself are made only once.
var flakyCalls = regexp.MustCompile(`/(containers|exec)/`)

// NewFlaky starts a proxy. It fails no request until Fail is called.
func NewFlaky(t *testing.T, seed uint64) *Flaky {
	t.Helper()
	NeedDocker(t)
	engine, err := client.NewClientWithOpts(client.FromEnv)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { engine.Close() })
	f := &Flaky{dice: rand.New(rand.NewPCG(seed, 0)), failed: map[string]int{}, only: flakyCalls}
	dial := engine.Dialer()
	f.engine = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }}
	forward := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", "engine" },
		Transport:      f.engine,
		FlushInterval:  -1,
		ModifyResponse: f.answer,
		ErrorHandler:   func(w http.ResponseWriter, _ *http.Request, _ error) { hangUp(w) },
	}
	socket := filepath.Join(t.TempDir(), "engine.sock")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ //nolint:gosec // tests are its only clients
		ErrorLog: nil,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			how := f.fate(r)
			switch {
			case how > 99:
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(int(how))
				_, _ = io.WriteString(w, `{"message":"injected"}`)
			case how == hangsUp || f.isLate(r):
				hangUp(w)
			default:
				forward.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), fateKey{}, how)))
			}
		}),
	}
	go server.Serve(listener) //nolint:errcheck // returns after Close
	t.Cleanup(func() { server.Close() })
	t.Setenv("DOCKER_HOST", "unix://"+socket)
	return f
}

// Fail sets the share of requests that fail, from 0 to 1. If only is not "", only requests whose
// method and path match it fail.
func (f *Flaky) Fail(rate float64, only string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rate, f.only = rate, flakyCalls
	if only != "" {
		f.only = regexp.MustCompile(only)
	}
}

// Refuse answers all requests whose method and path match only with status 500, without carrying
// them out.
func (f *Flaky) Refuse(only string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse = regexp.MustCompile(only)
}

// Late delays the next request whose method and path match only: its connection is closed, and the
// engine receives and completes it just before the next matching request.
func (f *Flaky) Late(only string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.late, f.held = regexp.MustCompile(only), nil
}

// isLate reports whether a request is to be delayed, and carries out the delayed one before it.
func (f *Flaky) isLate(r *http.Request) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.late == nil || !f.late.MatchString(r.Method+" "+r.URL.Path) {
		return false
	}
	if f.held == nil {
		body, _ := io.ReadAll(r.Body)
		f.held = r.Clone(context.Background())
		f.held.Body, f.held.RequestURI = io.NopCloser(bytes.NewReader(body)), ""
		f.held.URL.Scheme, f.held.URL.Host = "http", "engine"
		return true
	}
	if resp, err := f.engine.RoundTrip(f.held); err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	f.late, f.held = nil, nil
	return false
}

// Failed returns the number of failed requests, by method and kind of failure.
func (f *Flaky) Failed() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

// fate is the result of a request: a status from 100, or one of these.
type fate int

const (
	succeeds  fate = iota
	hangsUp        // closes the connection before the request is carried out
	isLost         // loses the response
	breaksOff      // closes the connection in the middle of the response
)

var fates = []fate{500, 503, 404, 409, hangsUp, isLost, breaksOff}

type fateKey struct{}

func (f *Flaky) fate(r *http.Request) fate {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse != nil && f.refuse.MatchString(r.Method+" "+r.URL.Path) {
		return http.StatusInternalServerError
	}
	if !f.only.MatchString(r.Method+" "+r.URL.Path) || f.dice.Float64() >= f.rate {
		return succeeds
	}
	how := fates[f.dice.IntN(len(fates))]
	f.failed[fmt.Sprintf("%s %d", r.Method, how)]++
	return how
}

// answer damages a response of the engine.
func (f *Flaky) answer(r *http.Response) error {
	switch how, _ := r.Request.Context().Value(fateKey{}).(fate); how {
	case isLost:
		return errInjected
	case breaksOff:
		f.mu.Lock()
		left := f.dice.IntN(4 << 10)
		f.mu.Unlock()
		if both, ok := r.Body.(io.ReadWriteCloser); ok {
			r.Body = &brokenStream{both, left}
		} else {
			r.Body = &brokenBody{r.Body, left}
			if n, err := strconv.Atoi(r.Header.Get("Content-Length")); err == nil && n > 0 {
				r.Body.(*brokenBody).left = min(left, n-1)
			}
		}
	}
	return nil
}

// brokenBody is a body that ends prematurely.
type brokenBody struct {
	io.ReadCloser
	left int
}

func (b *brokenBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errInjected
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// brokenStream is a connection that ends prematurely.
type brokenStream struct {
	io.ReadWriteCloser
	left int
}

func (b *brokenStream) Read(p []byte) (int, error) {
	body := brokenBody{b.ReadWriteCloser, b.left}
	n, err := body.Read(p)
	b.left = body.left
	return n, err
}

func hangUp(w http.ResponseWriter) {
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		conn.Close()
	}
}
