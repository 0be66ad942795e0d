package docker

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/test/testenv"
)

// wire stands between the provider and the engine. It can be cut, as a daemon that dies does, and
// stopped, as one that hangs does.
type wire struct {
	listener net.Listener
	engine   string // its socket

	mu      sync.Mutex
	stopped bool
	flow    *sync.Cond
	conns   []net.Conn
}

// newWire makes DOCKER_HOST point to a wire to the engine.
func newWire(t *testing.T) *wire {
	t.Helper()
	p := newProvider(t, nil)
	socket, ok := strings.CutPrefix(p.api.DaemonHost(), "unix://")
	if !ok {
		testenv.Lacks(t, "docker", "an engine behind a Unix socket")
	}
	path := filepath.Join(t.TempDir(), "wire.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{listener: listener, engine: socket}
	w.flow = sync.NewCond(&w.mu)
	go w.serve()
	t.Cleanup(w.cut)
	t.Setenv("DOCKER_HOST", "unix://"+path)
	return w
}

func (w *wire) serve() {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		engine, err := net.Dial("unix", w.engine)
		if err != nil {
			client.Close()
			continue
		}
		w.mu.Lock()
		w.conns = append(w.conns, client, engine)
		w.mu.Unlock()
		go w.pass(engine, client)
		go w.pass(client, engine)
	}
}

// pass copies from one side to the other while the wire is not stopped.
func (w *wire) pass(to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		w.mu.Lock()
		for w.stopped {
			w.flow.Wait()
		}
		w.mu.Unlock()
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				from.Close()
				return
			}
		}
		if err != nil {
			if closer, ok := to.(interface{ CloseWrite() error }); ok && err == io.EOF {
				_ = closer.CloseWrite()
			}
			return
		}
	}
}

func (w *wire) cut() {
	w.listener.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, conn := range w.conns {
		conn.Close()
	}
	w.stopped = false
	w.flow.Broadcast()
}

func (w *wire) stop(stopped bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = stopped
	w.flow.Broadcast()
}

// started closes its channel when something is written to it.
type started struct {
	once sync.Once
	c    chan struct{}
}

func (s *started) Write(p []byte) (int, error) {
	s.once.Do(func() { close(s.c) })
	return len(p), nil
}

// wantTransient checks for a transient failure of this kind.
func wantTransient(t *testing.T, what string, err error, kind environment.Kind) {
	t.Helper()
	if environment.KindOf(err) != kind || !environment.IsTransient(err) {
		t.Errorf("%s: kind %q, transient %t, want a transient %q: %v", what, environment.KindOf(err), environment.IsTransient(err), kind, err)
	}
}

func TestCallsFailWhenTheEngineDies(t *testing.T) {
	direct := newProvider(t, nil) // its own way to the engine, for cleaning up
	w := newWire(t)
	p := newProvider(t, nil)
	env := newEnvironmentOf(t, p, direct)
	running := &started{c: make(chan struct{})}
	go func() {
		<-running.c
		w.cut()
	}()
	_, err := env.Exec(t.Context(), "echo on; sleep 600", environment.ExecOptions{Stdout: running})
	wantTransient(t, "a running Exec", err, environment.KindLost)

	one := environment.Copy{Src: fstest.MapFS{"f": {Data: make([]byte, 1<<20)}}, Dst: "/in"}
	_, err = env.Exec(t.Context(), "true", environment.ExecOptions{Timeout: time.Minute})
	wantTransient(t, "Exec", err, environment.KindLost)
	wantTransient(t, "CopyTo", env.CopyTo(t.Context(), one), environment.KindLost)
	_, err = env.CopyFrom(t.Context(), "/etc", t.TempDir(), environment.ExtractOptions{})
	wantTransient(t, "CopyFrom", err, environment.KindLost)
	wantTransient(t, "Stop", env.Stop(t.Context()), environment.KindUnavailable)
	wantTransient(t, "Destroy", env.Destroy(t.Context()), environment.KindUnavailable)
	_, err = p.CreateEnvironment(t.Context(), environment.CreateOptions{Image: testImage})
	wantTransient(t, "CreateEnvironment", err, environment.KindUnavailable)
	_, err = p.List(t.Context())
	wantTransient(t, "List", err, environment.KindUnavailable)
	wantTransient(t, "PullImage", p.PullImage(t.Context(), "127.0.0.1:1/x", nil), environment.KindUnavailable)
	_, err = p.BuildImage(t.Context(), environment.BuildOptions{Context: fstest.MapFS{"Dockerfile": {Data: []byte("FROM scratch\n")}}})
	wantTransient(t, "BuildImage", err, environment.KindUnavailable)
	_, err = New(t.Context(), nil)
	wantTransient(t, "New", err, environment.KindUnavailable)
	if err == nil || !strings.Contains(err.Error(), "start Docker") {
		t.Errorf("New does not say what to do: %v", err)
	}
}

// A job stops when its engine is gone for good, and not for a request that went wrong.
func TestReachable(t *testing.T) {
	newProvider(t, nil)
	w := newWire(t)
	p := newProvider(t, nil)
	if err := p.Reachable(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.silent.Store(true)
	if err := p.Reachable(t.Context()); err != nil || p.silent.Load() {
		t.Errorf("an engine that answers again: %v, silent %t", err, p.silent.Load())
	}
	w.cut()
	if _, err := p.List(t.Context()); err == nil {
		t.Fatal("the wire is not cut")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Reachable(ended); err != nil {
		t.Errorf("of a cancelled job: %v", err)
	}
	p.reachTime = time.Second
	err := p.Reachable(t.Context())
	wantTransient(t, "Reachable", err, environment.KindUnavailable)
	if err == nil || !strings.Contains(err.Error(), "wire.sock") || !strings.Contains(err.Error(), "start Docker again") {
		t.Errorf("it does not name the engine and what to do: %v", err)
	}
}

// newEnvironmentOf makes an environment with p that direct destroys.
func newEnvironmentOf(t *testing.T, p, direct *Provider) environment.Environment {
	t.Helper()
	env, err := p.CreateEnvironment(t.Context(), environment.CreateOptions{Image: testImage, Labels: testLabels(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := direct.Remove(context.Background(), env.ID()); err != nil {
			t.Error(err)
		}
	})
	return env
}

// Whatever hangs obeys its context.
func TestCallsObeyTheirContextWhileTheEngineHangs(t *testing.T) {
	direct := newProvider(t, nil)
	w := newWire(t)
	p := newProvider(t, nil)
	env := newEnvironmentOf(t, p, direct)
	w.stop(true)
	defer w.stop(false)
	one := environment.Copy{Src: fstest.MapFS{"f": {Data: make([]byte, 1<<20)}}, Dst: "/in"}
	for name, call := range map[string]func(context.Context) error{
		"Exec": func(ctx context.Context) error {
			_, err := env.Exec(ctx, "true", environment.ExecOptions{})
			return err
		},
		"CopyTo": func(ctx context.Context) error { return env.CopyTo(ctx, one) },
		"CopyFrom": func(ctx context.Context) error {
			_, err := env.CopyFrom(ctx, "/etc", t.TempDir(), environment.ExtractOptions{})
			return err
		},
		"Stop":    env.Stop,
		"Destroy": env.Destroy,
		"List": func(ctx context.Context) error {
			_, err := p.List(ctx)
			return err
		},
		"PullImage": func(ctx context.Context) error { return p.PullImage(ctx, "127.0.0.1:1/x", nil) },
		"BuildImage": func(ctx context.Context) error {
			_, err := p.BuildImage(ctx, environment.BuildOptions{Context: fstest.MapFS{"Dockerfile": {Data: []byte("FROM scratch\n")}}})
			return err
		},
		"New": func(ctx context.Context) error {
			_, err := New(ctx, nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			done := make(chan error, 1)
			go func() { done <- call(ctx) }()
			select {
			case err := <-done:
				if !errors.Is(err, context.DeadlineExceeded) || environment.IsTransient(err) {
					t.Errorf("error %v (transient: %t), want the context's", err, environment.IsTransient(err))
				}
			case <-time.After(time.Minute):
				t.Fatal("did not return")
			}
		})
	}
}
