package suite

import (
	"bytes"
	"context"
	"crypto/rand"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
)

// Scene holds the test, the provider and the labels of a check.
type Scene struct {
	testing.TB
	Opts     Options
	Ctx      context.Context
	Provider environment.Provider
	Labels   environment.Labels
}

// NewScene returns the scene of one check. It fails t in the end if environments are left behind.
func NewScene(t testing.TB, opts Options) *Scene {
	ctx, cancel := context.WithTimeout(context.Background(), 3*opts.Patience())
	t.Cleanup(cancel)
	s := &Scene{TB: t, Opts: opts, Ctx: ctx}
	s.Provider = s.NewProvider()
	s.Labels = environment.Labels{
		Job:   "environmenttest-" + rand.Text(),
		Trial: t.Name(),
		Owner: environment.Self(),
	}
	// Registered first, so it runs after every environment of the check has been destroyed.
	t.Cleanup(func() {
		if left := s.Listed(); len(left) > 0 {
			t.Errorf("left behind: %+v", left)
			s.RemoveAll(left)
		}
	})
	return s
}

// NewProvider returns another provider of the same backend, which is closed at the end.
func (s *Scene) NewProvider() environment.Provider {
	s.Helper()
	p := s.Opts.New(s.TB)
	s.Cleanup(func() {
		if err := p.Close(); err != nil {
			s.Errorf("Close: %v", err)
		}
	})
	return p
}

// Listed returns the environments of this check, from List.
func (s *Scene) Listed() []environment.Listed {
	s.Helper()
	all, err := s.Provider.List(s.Ctx)
	if err != nil {
		s.Fatalf("List: %v", err)
	}
	return slices.DeleteFunc(all, func(l environment.Listed) bool { return l.Labels.Job != s.Labels.Job })
}

// RemoveAll removes environments.
func (s *Scene) RemoveAll(left []environment.Listed) {
	for _, l := range left {
		if err := s.Provider.Remove(s.Ctx, l.ID); err != nil {
			s.Errorf("Remove(%s): %v", l.ID, err)
		}
	}
}

// Env is an environment with helpers for checks.
type Env struct {
	environment.Environment
	Scene *Scene
}

// Create creates an environment from the suite's image and destroys it at the end.
func (s *Scene) Create(change ...func(*environment.CreateOptions)) *Env {
	s.Helper()
	opts := environment.CreateOptions{Image: s.Opts.Image, Labels: s.Labels}
	for _, c := range change {
		c(&opts)
	}
	env, err := s.Provider.CreateEnvironment(s.Ctx, opts)
	if err != nil {
		s.Fatalf("CreateEnvironment: %v", err)
	}
	s.Cleanup(func() {
		if err := env.Destroy(s.Ctx); err != nil {
			s.Errorf("Destroy: %v", err)
		}
	})
	return &Env{Environment: env, Scene: s}
}

// Outcome is the result of a command.
type Outcome struct {
	Stdout, Stderr string
	Code           int
	Err            error
}

// Do runs a script and collects its output, unless opts has writers. It fails the check if Exec
// does not return.
func (b *Env) Do(ctx context.Context, script string, opts environment.ExecOptions) Outcome {
	b.Scene.Helper()
	var stdout, stderr Buffer
	if opts.Stdout == nil {
		opts.Stdout = &stdout
	}
	if opts.Stderr == nil {
		opts.Stderr = &stderr
	}
	var o Outcome
	b.Scene.Within("Exec", func() { o.Code, o.Err = b.Exec(ctx, script, opts) })
	o.Stdout, o.Stderr = stdout.String(), stderr.String()
	return o
}

// Run runs a script that must succeed, and returns its output.
func (b *Env) Run(script string) string {
	b.Scene.Helper()
	return b.RunWith(script, environment.ExecOptions{})
}

// RunWith is Run with options.
func (b *Env) RunWith(script string, opts environment.ExecOptions) string {
	b.Scene.Helper()
	o := b.Do(b.Scene.Ctx, script, opts)
	if o.Err != nil || o.Code != 0 {
		b.Scene.Fatalf("script %.200q: exit code %d, error %v\nstdout: %.2000s\nstderr: %.2000s",
			script, o.Code, o.Err, o.Stdout, o.Stderr)
	}
	return o.Stdout
}

// Put copies trees into the environment.
func (b *Env) Put(copies ...environment.Copy) {
	b.Scene.Helper()
	if err := b.CopyTo(b.Scene.Ctx, copies...); err != nil {
		b.Scene.Fatalf("CopyTo: %v", err)
	}
}

// Within fails the check if do does not return in time.
func (s *Scene) Within(what string, do func()) {
	s.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
	case <-time.After(s.Opts.Patience()):
		s.Fatalf("%s did not return within %v", what, s.Opts.Patience())
	}
}

// Equal compares texts and reports where they begin to differ.
func (s *Scene) Equal(what, got, want string) {
	s.Helper()
	if got == want {
		return
	}
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	from := max(0, at-20)
	s.Errorf("%s: %d bytes, want %d; at byte %d: got %.120q, want %.120q",
		what, len(got), len(want), at, got[from:], want[from:])
}

// WantKind fails the check unless err has one of these kinds.
func (s *Scene) WantKind(what string, err error, kinds ...environment.Kind) {
	s.Helper()
	if err == nil {
		s.Errorf("%s: no error, want kind %v", what, kinds)
	} else if !slices.Contains(kinds, environment.KindOf(err)) {
		s.Errorf("%s: kind %q, want %v: %v", what, environment.KindOf(err), kinds, err)
	}
}

// IsLost checks that every method that reaches an environment reports that it is lost.
func (s *Scene) IsLost(b *Env) {
	s.Helper()
	s.WantKind("Exec", b.Do(s.Ctx, "echo ran", environment.ExecOptions{}).Err, environment.KindLost)
	s.WantKind("Exec with a timeout", b.Do(s.Ctx, "echo ran", environment.ExecOptions{Timeout: s.Opts.Patience()}).Err, environment.KindLost)
	one := environment.Copy{Src: Files(map[string]string{"f": "x"}), Dst: "/in"}
	s.WantKind("CopyTo", b.CopyTo(s.Ctx, one), environment.KindLost)
	_, err := b.CopyFrom(s.Ctx, "/etc", s.TempDir(), environment.ExtractOptions{})
	s.WantKind("CopyFrom", err, environment.KindLost)
	if environment.IsTransient(err) {
		s.Errorf("transient: %v", err)
	}
}

// SetNetwork changes the network of the environment.
func (b *Env) SetNetwork(n environment.Network) {
	b.Scene.Helper()
	var err error
	b.Scene.Within("SetNetwork", func() { err = environment.SetNetwork(b.Scene.Ctx, b.Environment, n) })
	if err != nil {
		b.Scene.Fatalf("SetNetwork(%v): %v", n, err)
	}
}

// None is the network that reaches nothing.
var None = environment.Network{Mode: environment.NetworkNone}

// Files returns a small tree: contents by path, all with mode 0644.
func Files(content map[string]string) fs.FS {
	tree := fstest.MapFS{}
	for name, data := range content {
		tree[name] = &fstest.MapFile{Data: []byte(data), Mode: 0o644}
	}
	return tree
}

// Buffer is a bytes.Buffer that can be read while a provider writes to it.
type Buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String returns what was written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// Signal is a writer that closes Seen when its text has been written.
type Signal struct {
	Buffer
	text string
	once sync.Once
	Seen chan struct{}
}

// NewSignal returns a Signal for a text.
func NewSignal(text string) *Signal { return &Signal{text: text, Seen: make(chan struct{})} }

// Write implements io.Writer.
func (g *Signal) Write(p []byte) (int, error) {
	n, err := g.Buffer.Write(p)
	if strings.Contains(g.String(), g.text) {
		g.once.Do(func() { close(g.Seen) })
	}
	return n, err
}
