package fake

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
)

// state is the lifecycle state of an environment.
type state int

const (
	running state = iota
	stopped
	spent // turned into an image
	gone
)

func (s state) String() string {
	return [...]string{"is running", "has been stopped", "has been made an image", "is gone"}[s]
}

// Environment is an environment.Environment.
type Environment struct {
	provider *Provider
	id       string
	image    *image
	env      map[string]string
	labels   environment.Labels
	ctx      context.Context // ends with the environment
	cancel   context.CancelFunc
	own      *execution // the provider's own, which is never killed
	kept     int64      // bytes kept by KeepOutcome; 0: none

	mu    sync.Mutex // also guards all files: a killed execution changes none
	root  *node
	state state
	busy  []string     // the methods in progress
	begun []*execution // all, in order
}

var _ environment.Environment = (*Environment)(nil)

// newEnvironment returns an environment with the files and variables of an image.
func (p *Provider) newEnvironment(img *image) *Environment {
	e := &Environment{provider: p, image: img, env: maps.Clone(img.env), root: img.root.clone()}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.own = &execution{e: e, ctx: context.Background()}
	return e
}

// ID implements environment.Environment.
func (e *Environment) ID() string { return e.id }

// Cost implements environment.Environment.
func (e *Environment) Cost() float64 { return 0 }

// Unenforced implements environment.LimitReporter. There are no processes whose number could be
// limited.
func (e *Environment) Unenforced() []string { return []string{"cpus", "memory", "storage"} }

func (e *Environment) now() state {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state
}

// lost returns why an environment in this state cannot be used.
func (e *Environment) lost(s state) error {
	return &environment.Error{Kind: environment.KindLost, Err: fmt.Errorf("environment %s %v", e.id, s)}
}

// begin starts a method in an environment whose state is at most last. Any method that begins
// during another one than Exec is a complaint. The returned function ends the method.
func (e *Environment) begin(ctx context.Context, op string, last state) (end func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	e.mu.Lock()
	state, busy := e.state, slices.Clone(e.busy)
	if state <= last {
		e.busy = append(e.busy, op)
	}
	e.mu.Unlock()
	if i := slices.IndexFunc(busy, func(other string) bool { return other != "Exec" }); i >= 0 {
		e.provider.complain(fmt.Sprintf("%s of %s during its %s", op, e.id, busy[i]))
	}
	if state > last {
		e.provider.complain(fmt.Sprintf("%s of %s, which %v", op, e.id, state))
		return nil, e.lost(state)
	}
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		at := slices.Index(e.busy, op)
		e.busy = slices.Delete(e.busy, at, at+1)
	}, nil
}

// end brings the environment to a later state. When it returns, its commands no longer have any
// effect.
func (e *Environment) end(to state) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.state = max(e.state, to)
	e.cancel()
}

// Stop implements environment.Environment.
func (e *Environment) Stop(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if e.now() == gone {
		return e.lost(gone)
	}
	e.end(stopped)
	return nil
}

// Destroy implements environment.Environment.
func (e *Environment) Destroy(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e.end(gone)
	w := e.provider.world
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.environments, e.id)
	return nil
}

// Exec implements environment.Environment.
func (e *Environment) Exec(ctx context.Context, script string, opts environment.ExecOptions) (int, error) {
	end, err := e.begin(ctx, "Exec", running)
	if err != nil {
		return 0, err
	}
	defer end()
	x, done, err := e.start(script, opts)
	if err != nil {
		return 0, err
	}
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		x.ended = true
	}()
	var timeout <-chan time.Time
	if opts.Timeout > 0 {
		timeout = time.After(opts.Timeout)
	}
	var code int
	select {
	case code = <-done:
	case <-timeout:
		err = environment.ErrTimeout
	case <-ctx.Done():
		err = ctx.Err()
	case <-e.ctx.Done():
	}
	if err != nil {
		x.kill()
	}
	writeErr := x.close()
	switch {
	case err != nil:
		return 0, err
	case e.ctx.Err() != nil:
		return 0, e.lost(e.now())
	}
	return code, writeErr
}

// execution is a command of an environment, with everything that it has started: goroutines, which
// end when they notice that it was killed.
type execution struct {
	e      *Environment
	ctx    context.Context
	cancel context.CancelFunc
	sinks  *environment.Sinks
	stdin  *os.File
	closed atomic.Bool // the output is no longer read
	ended  bool        // Exec has returned, but background jobs may run. Guarded by e.mu.
}

// kill ends the execution, and the background jobs of later ones that have ended. When it returns,
// they no longer have any effect.
func (x *execution) kill() {
	x.e.mu.Lock()
	defer x.e.mu.Unlock()
	x.cancel()
	for _, later := range x.e.begun[slices.Index(x.e.begun, x)+1:] {
		if later.ended {
			later.cancel()
		}
	}
}

// close closes the input and the output, and returns the first error of the writers.
func (x *execution) close() error {
	x.closed.Store(true)
	if x.stdin != nil {
		_ = x.stdin.Close()
	}
	return x.sinks.Close()
}

// output discards writes after the execution is closed.
type output struct {
	x *execution
	w io.Writer
}

func (o *output) Write(p []byte) (int, error) {
	if o.x.closed.Load() {
		return len(p), nil
	}
	return o.w.Write(p)
}

// start starts an execution, and returns the channel of its exit code.
func (e *Environment) start(script string, opts environment.ExecOptions) (*execution, <-chan int, error) {
	fails := func(err error) error {
		return &environment.Error{Kind: environment.KindExec, Err: fmt.Errorf("start command: %w", err)}
	}
	dir := cmp.Or(opts.WorkDir, e.image.workDir)
	if i, err := e.own.stat(dir, true); err != nil || !i.IsDir() {
		return nil, nil, fails(fmt.Errorf("there is no directory %s to work in", dir))
	}
	if user := cmp.Or(opts.User, "root"); user != "root" && user != "0" {
		return nil, nil, fails(fmt.Errorf("there is no user %s: the fake environment has only root", user))
	}
	x := &execution{e: e}
	if opts.Stdin != nil {
		var err error
		if x.stdin, err = piped(opts.Stdin); err != nil {
			return nil, nil, fails(err)
		}
	}
	vars := maps.Clone(e.env)
	maps.Copy(vars, opts.Env)
	x.ctx, x.cancel = context.WithCancel(e.ctx)
	x.sinks = environment.NewSinks(opts.Stdout, opts.Stderr)
	s := shell{
		x: x, env: vars, dir: dir, params: []string{"--"}, stdin: x.stdin,
		stdout: &output{x, x.sinks.Stdout}, stderr: &output{x, x.sinks.Stderr},
	}
	e.mu.Lock()
	e.begun = append(e.begun, x)
	e.mu.Unlock()
	done := make(chan int, 1)
	go func() { done <- s.run(x.ctx, script, "bash") }()
	return x, done, nil
}
