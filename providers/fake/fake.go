package fake

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/org/rollout-action/internal/environment"
)

// Name is the value of environment.type that selects this provider.
const Name = "fake"

// Options make a provider do what tests need. The zero value is a provider that never fails.
type Options struct {
	// World is shared with other providers; nil means one of its own.
	World *World

	// Images are the references that exist besides those that were built. Nil: all that do not begin
	// with "missing".
	Images []string

	// Fail is asked before each operation, and what it returns is what the operation fails with. op is
	// "build", "pull", "create", "exec", "copy_to", "copy_from", "network", "snapshot", "stop" or "destroy", and n counts the
	// operation's calls on this provider, from 1. It may be called by many goroutines at once.
	Fail func(op string, n int) error

	// OnExec is called before a command starts.
	OnExec func(labels environment.Labels, script string, opts environment.ExecOptions)

	// Complain is called when a caller breaks the rules of the contract: uses an environment after its
	// end, calls two methods at once that must not be, or closes the provider with environments left
	// over. The calls behave as the contract says all the same.
	Complain func(complaint string)
}

// Provider is an environment.Provider.
type Provider struct {
	opts  Options
	world *World

	mu    sync.Mutex
	calls map[string]int
	mine  map[string]string // trial by id, of environments that were made here and not destroyed
}

var _ environment.Provider = (*Provider)(nil)

// New makes a provider. It needs nothing and cannot fail.
func New(opts Options) *Provider {
	world := opts.World
	if world == nil {
		world = NewWorld()
	}
	return &Provider{opts: opts, world: world, calls: map[string]int{}, mine: map[string]string{}}
}

// Check finds the problems in an environment.provider_config: it has no keys.
func Check(cfg map[string]any) []environment.ConfigProblem {
	var problems []environment.ConfigProblem
	for _, key := range slices.Sorted(maps.Keys(cfg)) {
		problems = append(problems, environment.ConfigProblem{
			Path:    key,
			Message: fmt.Sprintf("unknown key %q", key),
			Hint:    "the provider fake has no configuration",
		})
	}
	return problems
}

// Name implements environment.Provider.
func (p *Provider) Name() string { return Name }

// begin is what every operation does first.
func (p *Provider) begin(ctx context.Context, op string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p.mu.Lock()
	p.calls[op]++
	n := p.calls[op]
	p.mu.Unlock()
	if p.opts.Fail != nil {
		return p.opts.Fail(op, n)
	}
	return nil
}

func (p *Provider) complain(format string, args ...any) {
	if p.opts.Complain != nil {
		p.opts.Complain("fake provider: " + fmt.Sprintf(format, args...))
	}
}

// exists tells whether a reference that was not built here means something.
func (p *Provider) exists(ref string) bool {
	if p.opts.Images != nil {
		return slices.Contains(p.opts.Images, ref)
	}
	return ref != "" && !strings.HasPrefix(ref, "missing") && !strings.HasPrefix(ref, builtRef)
}

// image is what ref means, or nil.
func (p *Provider) image(ref string) *image {
	p.world.mu.Lock()
	built := p.world.images[ref]
	p.world.mu.Unlock()
	if built == nil && p.exists(ref) {
		return baseImage
	}
	return built
}

// PullImage implements environment.Provider.
func (p *Provider) PullImage(ctx context.Context, ref string, progress func(string)) error {
	if err := p.begin(ctx, "pull"); err != nil {
		return err
	}
	if p.image(ref) == nil {
		return &environment.Error{Kind: environment.KindPull, Err: fmt.Errorf("pull image %s: there is no such image", ref)}
	}
	if progress != nil {
		progress(ref + " is present")
	}
	return nil
}

// List implements environment.Provider.
func (p *Provider) List(ctx context.Context) ([]environment.Listed, error) {
	return p.world.list(), ctx.Err()
}

// Remove implements environment.Provider.
func (p *Provider) Remove(ctx context.Context, id string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if e := p.world.find(id); e != nil {
		e.destroy()
	}
	return nil
}

// Leaked are the environments that this provider made and that were neither destroyed nor stopped, as
// "id (trial)".
func (p *Provider) Leaked() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var left []string
	for _, id := range slices.Sorted(maps.Keys(p.mine)) {
		if e := p.world.find(id); e != nil && !e.isKept() {
			left = append(left, fmt.Sprintf("%s (%s)", id, p.mine[id]))
		}
	}
	return left
}

// Close implements environment.Provider. It complains about what was left over.
func (p *Provider) Close() error {
	if left := p.Leaked(); len(left) > 0 {
		p.complain("closed with environments that were never destroyed: %s", strings.Join(left, ", "))
	}
	return nil
}

// The machine that all environments pretend to share.
const (
	machineCPUs   = 1024
	machineMemory = 1 << 40

	defaultStorage = 1 << 30
	defaultPids    = 4096
)

// CreateEnvironment implements environment.Provider.
func (p *Provider) CreateEnvironment(ctx context.Context, opts environment.CreateOptions) (environment.Environment, error) {
	if err := p.begin(ctx, "create"); err != nil {
		return nil, err
	}
	img := p.image(opts.Image)
	if img == nil {
		return nil, &environment.Error{Kind: environment.KindStart, Err: fmt.Errorf("create environment: there is no image %q: %w", opts.Image, environment.ErrNoImage)}
	}
	if opts.Limits.MilliCPUs > machineCPUs*1000 || opts.Limits.Memory > machineMemory {
		err := fmt.Errorf("create environment: the machine has %d processors and %d bytes of memory", machineCPUs, int64(machineMemory))
		return nil, &environment.Error{Kind: environment.KindResources, Err: err}
	}
	m := newMachine(img.root.clone(), p.world)
	if err := m.network.change(opts.Network); err != nil {
		return nil, err
	}
	if opts.Limits.Storage > 0 {
		m.storage = opts.Limits.Storage
	}
	if opts.Limits.Pids > 0 {
		m.maxProcs = int(opts.Limits.Pids)
	}
	e := &Environment{provider: p, m: m, image: img, env: maps.Clone(img.env), labels: opts.Labels.Map(), ended: make(chan struct{})}
	maps.Copy(e.env, opts.Env)
	if err := errors.Join(m.mkdirAll(nil, img.workDir, 0o755), m.unpack(opts.Files), ctx.Err()); err != nil {
		return nil, err
	}
	p.world.register(e)
	p.mu.Lock()
	p.mine[e.id] = opts.Labels.Trial
	p.mu.Unlock()
	if err := e.enter(ctx); err != nil {
		e.destroy()
		return nil, err
	}
	return e, nil
}
