package environmenttest

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

// scene holds the test, the provider and the labels of a check.
type scene struct {
	testing.TB
	opts     Options
	ctx      context.Context
	provider environment.Provider
	labels   environment.Labels
}

func newScene(t testing.TB, opts Options) *scene {
	ctx, cancel := context.WithTimeout(context.Background(), 3*opts.patience())
	t.Cleanup(cancel)
	s := &scene{TB: t, opts: opts, ctx: ctx}
	s.provider = s.newProvider()
	s.labels = environment.Labels{
		Job:   "environmenttest-" + rand.Text(),
		Trial: t.Name(),
		Owner: environment.Self(),
	}
	// Registered first, so it runs after every environment of the check has been destroyed.
	t.Cleanup(func() {
		if left := s.listed(); len(left) > 0 {
			t.Errorf("left behind: %+v", left)
			s.removeAll(left)
		}
	})
	return s
}

func (s *scene) newProvider() environment.Provider {
	s.Helper()
	p := s.opts.New(s.TB)
	s.Cleanup(func() {
		if err := p.Close(); err != nil {
			s.Errorf("Close: %v", err)
		}
	})
	return p
}

// listed returns the environments of this check, from List.
func (s *scene) listed() []environment.Listed {
	s.Helper()
	all, err := s.provider.List(s.ctx)
	if err != nil {
		s.Fatalf("List: %v", err)
	}
	return slices.DeleteFunc(all, func(l environment.Listed) bool { return l.Labels.Job != s.labels.Job })
}

func (s *scene) removeAll(left []environment.Listed) {
	for _, l := range left {
		if err := s.provider.Remove(s.ctx, l.ID); err != nil {
			s.Errorf("Remove(%s): %v", l.ID, err)
		}
	}
}

// box is an environment with helpers for checks.
type box struct {
	environment.Environment
	s *scene
}

// create creates an environment from the suite's image and destroys it at the end.
func (s *scene) create(change ...func(*environment.CreateOptions)) *box {
	s.Helper()
	opts := environment.CreateOptions{Image: s.opts.Image, Labels: s.labels}
	for _, c := range change {
		c(&opts)
	}
	env, err := s.provider.CreateEnvironment(s.ctx, opts)
	if err != nil {
		s.Fatalf("CreateEnvironment: %v", err)
	}
	s.Cleanup(func() {
		if err := env.Destroy(s.ctx); err != nil {
			s.Errorf("Destroy: %v", err)
		}
	})
	return &box{Environment: env, s: s}
}

// outcome is the result of a command.
type outcome struct {
	stdout, stderr string
	code           int
	err            error
}

// exec runs a script and collects its output, unless opts has writers. It fails the check if Exec
// does not return.
func (b *box) exec(ctx context.Context, script string, opts environment.ExecOptions) outcome {
	b.s.Helper()
	var stdout, stderr buffer
	if opts.Stdout == nil {
		opts.Stdout = &stdout
	}
	if opts.Stderr == nil {
		opts.Stderr = &stderr
	}
	var o outcome
	b.s.within("Exec", func() { o.code, o.err = b.Exec(ctx, script, opts) })
	o.stdout, o.stderr = stdout.String(), stderr.String()
	return o
}

// run runs a script that must succeed, and returns its output.
func (b *box) run(script string) string {
	b.s.Helper()
	return b.runWith(script, environment.ExecOptions{})
}

func (b *box) runWith(script string, opts environment.ExecOptions) string {
	b.s.Helper()
	o := b.exec(b.s.ctx, script, opts)
	if o.err != nil || o.code != 0 {
		b.s.Fatalf("script %.200q: exit code %d, error %v\nstdout: %.2000s\nstderr: %.2000s",
			script, o.code, o.err, o.stdout, o.stderr)
	}
	return o.stdout
}

// copyTo copies trees into the environment.
func (b *box) copyTo(copies ...environment.Copy) {
	b.s.Helper()
	if err := b.CopyTo(b.s.ctx, copies...); err != nil {
		b.s.Fatalf("CopyTo: %v", err)
	}
}

// within fails the check if do does not return in time.
func (s *scene) within(what string, do func()) {
	s.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
	case <-time.After(s.opts.patience()):
		s.Fatalf("%s did not return within %v", what, s.opts.patience())
	}
}

// equal compares texts and reports where they begin to differ.
func (s *scene) equal(what, got, want string) {
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

// wantKind fails the check unless err has one of these kinds.
func (s *scene) wantKind(what string, err error, kinds ...environment.Kind) {
	s.Helper()
	if err == nil {
		s.Errorf("%s: no error, want kind %v", what, kinds)
	} else if !slices.Contains(kinds, environment.KindOf(err)) {
		s.Errorf("%s: kind %q, want %v: %v", what, environment.KindOf(err), kinds, err)
	}
}

// files returns a small tree: contents by path, all with mode 0644.
func files(content map[string]string) fs.FS {
	tree := fstest.MapFS{}
	for name, data := range content {
		tree[name] = &fstest.MapFile{Data: []byte(data), Mode: 0o644}
	}
	return tree
}

// buffer is a bytes.Buffer that can be read while a provider writes to it.
type buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// signal is a writer that closes seen when its text has been written.
type signal struct {
	buffer
	text string
	once sync.Once
	seen chan struct{}
}

func newSignal(text string) *signal { return &signal{text: text, seen: make(chan struct{})} }

func (g *signal) Write(p []byte) (int, error) {
	n, err := g.buffer.Write(p)
	if strings.Contains(g.String(), g.text) {
		g.once.Do(func() { close(g.seen) })
	}
	return n, err
}
