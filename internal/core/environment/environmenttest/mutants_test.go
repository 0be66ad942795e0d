package environmenttest

import (
	"context"
	"io/fs"
	"net"
	"sync"
	"testing/fstest"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
)

// mutant is a provider with one broken promise. Each hook that is set replaces a method; inner is
// the original.
type mutant struct {
	environment.Provider
	hooks
	mu   sync.Mutex
	envs []*brokenEnv
}

type hooks struct {
	name   func() string
	build  func(m *mutant, ctx context.Context, o environment.BuildOptions) (string, error)
	pull   func(m *mutant, ctx context.Context, ref string) error
	create func(m *mutant, ctx context.Context, o environment.CreateOptions) (environment.Environment, error)
	remove func(m *mutant, ctx context.Context, id string) error
	close  func(m *mutant) error

	id         func(e *brokenEnv) string
	copyTo     func(e *brokenEnv, ctx context.Context, files []environment.Copy) error
	copyFrom   func(e *brokenEnv, ctx context.Context, src, dst string, o environment.ExtractOptions) (environment.Extracted, error)
	exec       func(e *brokenEnv, ctx context.Context, script string, o environment.ExecOptions) (int, error)
	setNetwork func(e *brokenEnv, ctx context.Context, n environment.Network) error
	stop       func(e *brokenEnv, ctx context.Context) error
	destroy    func(e *brokenEnv, ctx context.Context) error
	cost       func(e *brokenEnv) float64
	unenforced func() []string
	base       func(e *brokenEnv) *environment.Base
	readiness  func(e *brokenEnv) environment.Readiness

	// core hides the optional interfaces.
	core bool

	// patience, if not 0, is the time limit of checks, where the unbroken provider needs more than
	// usual.
	patience time.Duration

	// programs: the hooks run programs that the fake provider does not have.
	programs bool

	// restore replaces Restore.
	restore func(m *mutant, ctx context.Context, id string, o environment.CreateOptions) (environment.Environment, error)

	// keep replaces KeepOutcome.
	keep func(e *brokenEnv, ctx context.Context) (environment.Outcome, error)

	// changes replaces Changes.
	changes func(e *brokenEnv, ctx context.Context, o environment.ChangeOptions) (environment.Changes, error)

	// terminal, if set, is ExecTerminal.
	terminal func(e *brokenEnv, ctx context.Context, script string, o environment.ExecOptions, t environment.Terminal) (int, error)

	// services, if set, is CreateWithServices: the provider claims to have it.
	services func(m *mutant, ctx context.Context, o environment.CreateOptions, s environment.Services) (environment.Environment, error)

	// listen, if set, is ListenLoopback.
	listen func(e *brokenEnv, ctx context.Context) (net.Listener, error)

	snapshotHooks
}

// serviceProvider is a mutant that claims to run services.
type serviceProvider struct{ *mutant }

func (p serviceProvider) CreateWithServices(ctx context.Context, o environment.CreateOptions, s environment.Services) (environment.Environment, error) {
	return p.services(p.mutant, ctx, o, s)
}

// coreProvider hides the optional interfaces of a provider and its environments.
type coreProvider struct{ environment.Provider }

func (c coreProvider) CreateEnvironment(ctx context.Context, o environment.CreateOptions) (environment.Environment, error) {
	env, err := c.Provider.CreateEnvironment(ctx, o)
	if err != nil {
		return nil, err
	}
	return coreEnvironment{env}, nil
}

type coreEnvironment struct{ environment.Environment }

func (c coreEnvironment) Unenforced() []string { return environment.Unenforced(c.Environment) }

func (m *mutant) Name() string {
	if m.name != nil {
		return m.name()
	}
	return m.Provider.Name()
}

func (m *mutant) BuildImage(ctx context.Context, o environment.BuildOptions) (string, error) {
	if m.build != nil {
		return m.build(m, ctx, o)
	}
	return m.Provider.BuildImage(ctx, o)
}

func (m *mutant) PullImage(ctx context.Context, ref string, progress func(string)) error {
	if m.pull != nil {
		return m.pull(m, ctx, ref)
	}
	return m.Provider.PullImage(ctx, ref, progress)
}

func (m *mutant) CreateEnvironment(ctx context.Context, o environment.CreateOptions) (environment.Environment, error) {
	if m.create != nil {
		return m.create(m, ctx, o)
	}
	return m.make(ctx, o)
}

// make calls the original CreateEnvironment and returns an environment with broken methods.
func (m *mutant) make(ctx context.Context, o environment.CreateOptions) (environment.Environment, error) {
	env, err := m.Provider.CreateEnvironment(ctx, o)
	if err != nil {
		return nil, err
	}
	e := &brokenEnv{Environment: env, m: m}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.envs = append(m.envs, e)
	if m.terminal != nil {
		return &brokenTerminal{e}, nil
	}
	if m.listen != nil {
		return &brokenLoopback{e}, nil
	}
	return e, nil
}

// all returns the environments created so far.
func (m *mutant) all() []*brokenEnv {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]*brokenEnv(nil), m.envs...)
}

func (m *mutant) Remove(ctx context.Context, id string) error {
	if m.remove != nil {
		return m.remove(m, ctx, id)
	}
	return m.Provider.Remove(ctx, id)
}

func (m *mutant) Restore(ctx context.Context, id string, o environment.CreateOptions) (environment.Environment, error) {
	if m.restore != nil {
		return m.restore(m, ctx, id, o)
	}
	return environment.Restore(ctx, m.Provider, id, o)
}

func (m *mutant) Close() error {
	if m.close != nil {
		return m.close(m)
	}
	return m.Provider.Close()
}

type brokenEnv struct {
	environment.Environment
	m *mutant

	mu    sync.Mutex
	notes int // number of calls, for hooks that count
}

// count returns the number of earlier calls.
func (e *brokenEnv) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.notes++
	return e.notes
}

func (e *brokenEnv) ID() string {
	if e.m.id != nil {
		return e.m.id(e)
	}
	return e.Environment.ID()
}

func (e *brokenEnv) CopyTo(ctx context.Context, files ...environment.Copy) error {
	if e.m.copyTo != nil {
		return e.m.copyTo(e, ctx, files)
	}
	return e.Environment.CopyTo(ctx, files...)
}

func (e *brokenEnv) CopyFrom(ctx context.Context, src, dst string, o environment.ExtractOptions) (environment.Extracted, error) {
	if e.m.copyFrom != nil {
		return e.m.copyFrom(e, ctx, src, dst, o)
	}
	return e.Environment.CopyFrom(ctx, src, dst, o)
}

func (e *brokenEnv) Exec(ctx context.Context, script string, o environment.ExecOptions) (int, error) {
	if e.m.exec != nil {
		return e.m.exec(e, ctx, script, o)
	}
	return e.Environment.Exec(ctx, script, o)
}

func (e *brokenEnv) SetNetwork(ctx context.Context, n environment.Network) error {
	if e.m.setNetwork != nil {
		return e.m.setNetwork(e, ctx, n)
	}
	return environment.SetNetwork(ctx, e.Environment, n)
}

func (e *brokenEnv) Stop(ctx context.Context) error {
	if e.m.stop != nil {
		return e.m.stop(e, ctx)
	}
	return e.Environment.Stop(ctx)
}

func (e *brokenEnv) Destroy(ctx context.Context) error {
	if e.m.destroy != nil {
		return e.m.destroy(e, ctx)
	}
	return e.Environment.Destroy(ctx)
}

func (e *brokenEnv) Cost() float64 {
	if e.m.cost != nil {
		return e.m.cost(e)
	}
	return e.Environment.Cost()
}

func (e *brokenEnv) Unenforced() []string {
	if e.m.unenforced != nil {
		return e.m.unenforced()
	}
	return environment.Unenforced(e.Environment)
}

func (e *brokenEnv) Base() *environment.Base {
	if e.m.base != nil {
		return e.m.base(e)
	}
	return environment.BaseOf(e.Environment)
}

func (e *brokenEnv) Readiness() environment.Readiness {
	if e.m.readiness != nil {
		return e.m.readiness(e)
	}
	return environment.ReadinessOf(e.Environment)
}

func (e *brokenEnv) Processes(ctx context.Context) (n, limit int64) {
	if p, ok := environment.As[environment.ProcessReporter](e.Environment); ok {
		return p.Processes(ctx)
	}
	return 0, 0
}

// remap copies a tree; change may change a file, rename it, or drop it ("").
func remap(src fs.FS, change func(name string, f *fstest.MapFile) string) fs.FS {
	tree := fstest.MapFS{}
	_ = fs.WalkDir(src, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		f := &fstest.MapFile{Mode: info.Mode()}
		if !d.IsDir() {
			f.Data, _ = fs.ReadFile(src, name)
		}
		if to := change(name, f); to != "" {
			tree[to] = f
		}
		return nil
	})
	return tree
}

// changeFiles returns a copyTo hook that changes each file and each Copy.
func changeFiles(change func(name string, f *fstest.MapFile) string, copies ...func(c *environment.Copy)) hooks {
	return hooks{copyTo: func(e *brokenEnv, ctx context.Context, files []environment.Copy) error {
		for i := range files {
			if change != nil {
				files[i].Src = remap(files[i].Src, change)
			}
			for _, alter := range copies {
				alter(&files[i])
			}
		}
		return e.Environment.CopyTo(ctx, files...)
	}}
}

// changeExec returns an exec hook that changes the script or options.
func changeExec(change func(script *string, o *environment.ExecOptions)) hooks {
	return hooks{exec: func(e *brokenEnv, ctx context.Context, script string, o environment.ExecOptions) (int, error) {
		change(&script, &o)
		return e.Environment.Exec(ctx, script, o)
	}}
}

// changeCreate returns a create hook that changes the options.
func changeCreate(change func(o *environment.CreateOptions)) hooks {
	return hooks{create: func(m *mutant, ctx context.Context, o environment.CreateOptions) (environment.Environment, error) {
		change(&o)
		return m.make(ctx, o)
	}}
}

// changeBuild returns a build hook that changes the options.
func changeBuild(change func(o *environment.BuildOptions)) hooks {
	return hooks{build: func(m *mutant, ctx context.Context, o environment.BuildOptions) (string, error) {
		change(&o)
		return m.Provider.BuildImage(ctx, o)
	}}
}

// afterFetch returns a copyFrom hook that changes the destination or the result.
func afterFetch(change func(dst string, out *environment.Extracted, err *error)) hooks {
	return hooks{copyFrom: func(e *brokenEnv, ctx context.Context, src, dst string, o environment.ExtractOptions) (environment.Extracted, error) {
		out, err := e.Environment.CopyFrom(ctx, src, dst, o)
		change(dst, &out, &err)
		return out, err
	}}
}
