package main

import (
	"context"
	"net"
	"net/http"
	"net/http/httputil"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/docker/docker/client"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/test/testenv"
	"github.com/org/rollout-action/providers/docker"
)

// engineCalls are the calls of one hello trial, in order; docs/internals/docker.md explains each.
var engineCalls = []string{
	"POST /containers/create",
	"PUT /containers/{id}/archive",
	"POST /containers/{id}/start",
	"POST /containers/{id}/exec", "POST /exec/{id}/start", "GET /exec/{id}/json",
	"POST /containers/{id}/exec", "POST /exec/{id}/start", "GET /exec/{id}/json",
	"PUT /containers/{id}/archive",
	"POST /containers/{id}/exec", "POST /exec/{id}/start", "GET /exec/{id}/json",
	"GET /containers/{id}/archive",
	"DELETE /containers/{id}",
}

// countedTrials returns a job of one trial on a Docker engine whose calls the proxy counts.
func countedTrials(t *testing.T) (*callProxy, environment.Provider, *stage) {
	t.Helper()
	proxy := newCallProxy(t)
	provider, err := docker.New(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { provider.Close() })
	ours, err := newStage(t.Context(), t.TempDir(), testenv.Image, 1, provider)
	if err != nil {
		t.Fatal(err)
	}
	return proxy, provider, ours
}

func TestTrialMakesTheFewestEngineCalls(t *testing.T) {
	proxy, _, ours := countedTrials(t)
	floor, err := newBare(testenv.Image)
	if err != nil {
		t.Fatal(err)
	}
	defer floor.api.Close()
	floor.api.NegotiateAPIVersion(t.Context())

	proxy.take()
	if _, err := ours.trials(1, 1)(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Each task of a job checks once whether the image exists, and reads its content ID.
	image := "GET /images/" + testenv.Image + "/json"
	want := slices.Concat([]string{image, image}, engineCalls)
	if got := proxy.take(); !slices.Equal(got, want) {
		t.Errorf("a trial makes the calls\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if err := floor.trial(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := proxy.take(); !slices.Equal(got, engineCalls) {
		t.Errorf("the floor makes other calls than a trial:\n%s", strings.Join(got, "\n"))
	}
}

func TestModelsOfAJobAddNoEngineCalls(t *testing.T) {
	proxy, _, ours := countedTrials(t)
	var calls [2][]string
	for i := range calls {
		if i == 1 {
			if err := ours.withModels(); err != nil {
				t.Fatal(err)
			}
		}
		proxy.take()
		if _, err := ours.trials(1, 1)(t.Context()); err != nil {
			t.Fatal(err)
		}
		calls[i] = proxy.take()
	}
	if !slices.Equal(calls[0], calls[1]) || len(calls[0]) == 0 {
		t.Errorf("with models, a trial makes the calls\n%s\nwithout\n%s", strings.Join(calls[1], "\n"), strings.Join(calls[0], "\n"))
	}
}

// callProxy is a proxy between the clients of a test and the Docker engine that records the calls.
type callProxy struct {
	mu    sync.Mutex
	calls []string
}

var (
	apiVersion = regexp.MustCompile(`^/v[0-9.]+/`)
	longID     = regexp.MustCompile(`[0-9a-f]{64}`)
)

// newCallProxy starts a proxy and sets DOCKER_HOST to it, or skips the test.
func newCallProxy(t *testing.T) *callProxy {
	t.Helper()
	testenv.NeedDocker(t)
	engine, err := client.NewClientWithOpts(client.FromEnv)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { engine.Close() })
	dial := engine.Dialer()
	p := &callProxy{}
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", "engine" },
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dial(ctx)
		}},
		FlushInterval: -1,
	}
	socket := filepath.Join(t.TempDir(), "engine.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.note(r.Method + " " + longID.ReplaceAllString(apiVersion.ReplaceAllString(r.URL.Path, "/"), "{id}"))
		forward.ServeHTTP(w, r)
	})}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	t.Setenv("DOCKER_HOST", "unix://"+socket)
	return p
}

// note records a call. Repeated requests of the state of a running command count once.
func (p *callProxy) note(call string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.calls); n > 0 && p.calls[n-1] == call && strings.HasPrefix(call, "GET /exec/") {
		return
	}
	p.calls = append(p.calls, call)
}

// take returns the calls since the last take.
func (p *callProxy) take() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	calls := p.calls
	p.calls = nil
	return calls
}
