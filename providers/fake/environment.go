package fake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"sync"

	"github.com/org/rollout-action/internal/awake"
	"github.com/org/rollout-action/internal/environment"
)

// state is what has become of an environment.
type state int

const (
	running state = iota
	over          // its ENTRYPOINT has ended
	stopped
	spent // it has become an image
	gone
)

func (s state) String() string {
	return [...]string{"is running", "has ended with its ENTRYPOINT", "has been stopped", "has been made an image", "is gone"}[s]
}

// Environment is an environment.Environment.
type Environment struct {
	provider *Provider
	id       string
	m        *machine
	image    *image
	env      map[string]string
	labels   environment.Labels
	ended    chan struct{} // closed when it stops running
	entry    entry

	mu    sync.Mutex
	state state
	busy  string // the method in progress
}

var _ environment.Environment = (*Environment)(nil)

// ID implements environment.Environment.
func (e *Environment) ID() string { return e.id }

// Cost implements environment.Environment.
func (e *Environment) Cost() float64 { return 0 }

// Unenforced implements environment.LimitReporter.
func (e *Environment) Unenforced() []string { return []string{"cpus", "memory"} }

// OOMKills implements environment.MemoryReporter: memory is not limited.
func (e *Environment) OOMKills(context.Context) int { return 0 }

// Base implements environment.BaseReporter: no image stands in for another.
func (e *Environment) Base() *environment.Base { return nil }

func (e *Environment) is(s state) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state == s
}

// lost returns why the environment cannot be used.
func (e *Environment) lost() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.failure(e.state)
}

func (e *Environment) failure(s state) error {
	if s == over {
		return e.entry.failure(e.image)
	}
	return &environment.Error{Kind: environment.KindLost, Err: fmt.Errorf("environment %s %v", e.id, s)}
}

// begin starts a method that excludes others, in an environment whose state is not beyond last. end ends it.
func (e *Environment) begin(ctx context.Context, op string, last state) (end func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.busy != "" {
		e.provider.complain(fmt.Sprintf("%s of %s during its %s", op, e.id, e.busy))
	}
	if e.state > last {
		if e.state != over { // which nobody can know
			e.provider.complain(fmt.Sprintf("%s of %s, which %v", op, e.id, e.state))
		}
		return nil, e.failure(e.state)
	}
	e.busy = op
	return func() {
		e.mu.Lock()
		e.busy = ""
		e.mu.Unlock()
	}, nil
}

// end brings the environment to a later state, and ends its processes.
func (e *Environment) end(to state) {
	e.mu.Lock()
	before := e.state
	e.state = max(e.state, to)
	e.mu.Unlock()
	if before == running {
		close(e.ended)
	}
	e.m.mu.Lock()
	e.m.off = true
	e.m.mu.Unlock()
	e.m.killAll(nil, nil)
}

// Stop implements environment.Environment.
func (e *Environment) Stop(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if e.is(gone) {
		return e.lost()
	}
	e.end(stopped)
	return nil
}

// Destroy implements environment.Environment.
func (e *Environment) Destroy(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e.destroy()
	return nil
}

func (e *Environment) destroy() {
	e.end(gone)
	e.provider.world.remove(e.id)
	e.provider.mu.Lock()
	defer e.provider.mu.Unlock()
	delete(e.provider.mine, e.id)
}

// Exec implements environment.Environment.
func (e *Environment) Exec(ctx context.Context, script string, opts environment.ExecOptions) (int, error) {
	end, err := e.begin(ctx, "Exec", running)
	if err != nil {
		return 0, err
	}
	defer end()
	var stdin *os.File
	if opts.Stdin != nil {
		if stdin, err = piped(opts.Stdin); err != nil {
			return 0, execError(err)
		}
		defer stdin.Close()
	}
	x, p, err := e.m.begin(script, stdin, e.env, e.image, opts)
	if err != nil && e.lostNow() {
		return 0, e.lost()
	}
	if err != nil {
		return 0, err
	}
	e.entry.ran.Store(true)
	defer x.sweep()
	var timeout <-chan struct{}
	if opts.Timeout > 0 {
		waiting, cancel := context.WithCancel(ctx)
		defer cancel()
		timeout = awake.After(waiting, opts.Timeout)
	}
	select {
	case <-p.done:
		x.drain(ctx)
	case <-timeout:
		err = environment.ErrTimeout
	case <-ctx.Done():
		err = ctx.Err()
	case <-e.ended:
	}
	if err != nil {
		e.m.killAll(x, nil)
	}
	writeErr := errors.Join(x.stdout.close(), x.stderr.close())
	if err != nil {
		return 0, err
	}
	if e.lostNow() {
		return 0, e.lost()
	}
	_, code := p.dead()
	return code, writeErr
}

// lostNow reports whether the environment has ended, which kills its commands.
func (e *Environment) lostNow() bool {
	select {
	case <-e.ended:
		return true
	default:
		return false
	}
}

func execError(err error) error {
	return &environment.Error{Kind: environment.KindExec, Err: fmt.Errorf("start command: %w", err)}
}

// begin starts the first process of an execution. Its processes outlive the Exec.
func (m *machine) begin(script string, stdin *os.File, env map[string]string, img *image, opts environment.ExecOptions) (*execution, *process, error) {
	writing := new(sync.Mutex)
	x := &execution{
		m: m, env: maps.Clone(env), released: make(chan struct{}, 1),
		stdout: &sink{mu: writing, w: opts.Stdout}, stderr: &sink{mu: writing, w: opts.Stderr},
	}
	maps.Copy(x.env, opts.Env)
	x.ctx, x.cancel = context.WithCancel(context.Background())
	user, dir := cmp.Or(opts.User, img.user), cmp.Or(opts.WorkDir, img.workDir)
	var home string
	var err error
	if x.uid, x.gid, home, err = m.user(user); err != nil {
		return nil, nil, execError(err)
	}
	if i, err := m.stat(nil, dir, true); err != nil || !i.IsDir() {
		return nil, nil, execError(fmt.Errorf("there is no directory %s to work in", dir))
	}
	if _, ok := x.env["HOME"]; !ok {
		x.env["HOME"] = home
	}
	p, err := x.start(nil)
	if err != nil {
		return nil, nil, execError(err)
	}
	s := &shell{p: p, env: x.env, dir: dir, params: []string{"--"}, stdin: stdin, stdout: x.stdout, stderr: x.stderr}
	go func() { p.exit(s.run(script, "bash")) }()
	return x, p, nil
}
