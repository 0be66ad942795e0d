package fake

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/awake"
	"github.com/org/rollout-action/internal/environment"
)

// drainFor is how long Exec waits for background processes that hold the output open.
const drainFor = 500 * time.Millisecond

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
	labels   map[string]string
	ended    chan struct{} // closed when it runs no more
	entry    entry

	mu    sync.Mutex
	state state
	busy  string // the method that is under way
}

var _ environment.Environment = (*Environment)(nil)

// ID implements environment.Environment.
func (e *Environment) ID() string { return e.id }

// Cost implements environment.Environment: memory is cheap.
func (e *Environment) Cost() float64 { return 0 }

// Unenforced implements environment.LimitReporter.
func (e *Environment) Unenforced() []string { return []string{"cpus", "memory"} }

// OOMKills implements environment.MemoryReporter: memory is not limited.
func (e *Environment) OOMKills(context.Context) int { return 0 }

// Base implements environment.BaseReporter: all images are made up alike, so none stands in for another.
func (e *Environment) Base() *environment.Base { return nil }

func (e *Environment) isKept() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state == stopped
}

func (e *Environment) lost() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state == over {
		return e.entry.failure(e.image)
	}
	return &environment.Error{Kind: environment.KindLost, Err: fmt.Errorf("environment %s %v", e.id, e.state)}
}

// begin starts one of the methods that are called one at a time, on an environment that must not
// be beyond last. The returned function ends it.
func (e *Environment) begin(ctx context.Context, op string, last state) (end func(), err error) {
	e.mu.Lock()
	state, busy := e.state, e.busy
	if state <= last {
		e.busy = op
	}
	e.mu.Unlock()
	if busy != "" {
		e.provider.complain("%s of %s while its %s is under way", op, e.id, busy)
	}
	if state > last {
		if state != over { // which nobody can know
			e.provider.complain("%s of %s, which %v", op, e.id, state)
		}
		return nil, e.lost()
	}
	end = func() {
		e.mu.Lock()
		e.busy = ""
		e.mu.Unlock()
	}
	if err := e.provider.begin(ctx, op); err != nil {
		end()
		return nil, err
	}
	return end, nil
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
	e.m.killAll()
}

// Stop implements environment.Environment.
func (e *Environment) Stop(ctx context.Context) error {
	if err := e.provider.begin(ctx, "stop"); err != nil {
		return err
	}
	e.mu.Lock()
	isGone := e.state == gone
	e.mu.Unlock()
	if isGone {
		return e.lost()
	}
	e.end(stopped)
	return nil
}

// Destroy implements environment.Environment.
func (e *Environment) Destroy(ctx context.Context) error {
	if err := e.provider.begin(ctx, "destroy"); err != nil {
		return err
	}
	e.destroy()
	return nil
}

func (e *Environment) destroy() {
	e.end(gone)
	e.provider.world.remove(e.id)
	e.provider.mu.Lock()
	delete(e.provider.mine, e.id)
	e.provider.mu.Unlock()
}

// Exec implements environment.Environment.
func (e *Environment) Exec(ctx context.Context, script string, opts environment.ExecOptions) (int, error) {
	end, err := e.begin(ctx, "exec", running)
	if err != nil {
		return 0, err
	}
	defer end()
	if e.provider.opts.OnExec != nil {
		e.provider.opts.OnExec(environment.ParseLabels(e.labels), script, opts)
	}
	x := e.m.execution(e.env, opts)
	var stdin *os.File
	if opts.Stdin != nil {
		if stdin, err = piped(opts.Stdin); err != nil {
			return 0, execError(err)
		}
		defer stdin.Close()
	}
	p, err := x.begin(script, stdin, e.image, opts)
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
		x.wait(ctx, drainFor)
	case <-timeout:
		err = environment.ErrTimeout
	case <-ctx.Done():
		err = ctx.Err()
	case <-e.ended:
	}
	if err != nil {
		x.kill()
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

// lostNow tells whether the environment has ended, which kills its commands.
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

// execution prepares what belongs to one Exec.
func (m *machine) execution(env map[string]string, opts environment.ExecOptions) *execution {
	writing := new(sync.Mutex)
	x := &execution{
		m: m, env: maps.Clone(env), released: make(chan struct{}, 1),
		stdout: &sink{mu: writing, w: opts.Stdout}, stderr: &sink{mu: writing, w: opts.Stderr},
	}
	maps.Copy(x.env, opts.Env)
	// Its processes outlive the Exec; what ends them is kill.
	x.ctx, x.cancel = context.WithCancel(context.Background())
	return x
}

// begin starts the first process.
func (x *execution) begin(script string, stdin *os.File, img *image, opts environment.ExecOptions) (*process, error) {
	user, dir := opts.User, opts.WorkDir
	if user == "" {
		user = img.user
	}
	if dir == "" {
		dir = img.workDir
	}
	uid, gid, home, err := x.m.user(user)
	if err != nil {
		return nil, execError(err)
	}
	if i, err := x.m.stat(nil, dir, true); err != nil || !i.IsDir() {
		return nil, execError(fmt.Errorf("there is no folder %s to work in", dir))
	}
	if _, ok := x.env["HOME"]; !ok {
		x.env["HOME"] = home
	}
	x.env["HOSTNAME"] = "fake"
	x.uid, x.gid = uid, gid
	p, err := x.start(nil, "bash -c "+script)
	if err != nil {
		return nil, execError(err)
	}
	s := &shell{p: p, env: x.env, dir: dir, params: []string{"--"}, stdin: stdin, stdout: x.stdout, stderr: x.stderr}
	go func() { p.exit(s.run(script, "bash")) }()
	return p, nil
}
