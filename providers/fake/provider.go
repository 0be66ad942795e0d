// Package fake is an environment.Provider for tests: environments in memory, whose bash is mvdan.cc/sh with a few commands. It
// has no processes and reaches no real network. Users do not have it: tests give it to cli.Main.
package fake

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	dockerspec "github.com/moby/docker-image-spec/specs-go/v1"

	"github.com/org/rollout-action/internal/environment"
)

// Name is the value of environment.type that selects this provider.
const Name = "fake"

// Options change what a provider does.
type Options struct {
	// World is shared with other providers; nil: one of its own.
	World *World
	// Complain is called when a caller breaks the rules of the contract, as by using an environment after its end, calling two
	// methods at once that must not be, or closing the provider with environments that were neither destroyed nor stopped.
	Complain func(complaint string)
}

// World is what providers share, as those of a real kind share an engine: images, environments and a network.
type World struct {
	mu           sync.Mutex
	made         int // environments so far
	kept         int // images so far
	environments map[string]*Environment
	images       map[string]*image
	locked       map[string]chan struct{} // builds and keys of snapshots; closed when they are free
	hosts        map[string]string        // what they say, by host:port
}

// NewWorld returns an empty world.
func NewWorld() *World {
	return &World{environments: map[string]*Environment{}, images: map[string]*image{}, locked: map[string]chan struct{}{}, hosts: map[string]string{}}
}

// lock waits until nobody else has the lock of this name.
func (w *World) lock(ctx context.Context, name string) (unlock func(), err error) {
	for {
		w.mu.Lock()
		held := w.locked[name]
		if held == nil {
			free := make(chan struct{})
			w.locked[name] = free
			w.mu.Unlock()
			return func() {
				w.mu.Lock()
				delete(w.locked, name)
				w.mu.Unlock()
				close(free)
			}, nil
		}
		w.mu.Unlock()
		select {
		case <-held:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Lose destroys an environment as an accident would.
func (w *World) Lose(id string) {
	if env := w.find(id); env != nil {
		w.remove(id)
		env.end(gone)
	}
}

// Forget removes an image.
func (w *World) Forget(ref string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.images, ref)
}

func (w *World) find(id string) *Environment {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.environments[id]
}

func (w *World) remove(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.environments, id)
}

// image is a tree of files and how commands run in it.
type image struct {
	root        *node // is cloned and never changed
	env         map[string]string
	workDir     string
	user        string
	entrypoint  []string
	shell       []string
	healthcheck *dockerspec.HealthcheckConfig

	id    string    // of this build or snapshot
	from  *image    // that it was made from; nil for baseImage
	about string    // for people
	used  time.Time // last
}

// baseImage is every image that was not built here.
var baseImage = &image{root: baseRoot().clone(map[*node]*node{}), env: map[string]string{"PATH": defaultPath}, workDir: "/"}

// Provider is an environment.Provider.
type Provider struct {
	world    *World
	complain func(string)

	mu   sync.Mutex
	mine map[string]*Environment // that were made here and not destroyed
}

var _ environment.Provider = (*Provider)(nil)

// New returns a provider. It cannot fail.
func New(opts Options) *Provider {
	p := &Provider{world: opts.World, complain: opts.Complain, mine: map[string]*Environment{}}
	if p.world == nil {
		p.world = NewWorld()
	}
	if p.complain == nil {
		p.complain = func(string) {}
	}
	return p
}

// Name implements environment.Provider.
func (p *Provider) Name() string { return Name }

// image returns what ref means, or nil. Every image exists whose name does not begin with "missing".
func (p *Provider) image(ref string) *image {
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	built := p.world.images[ref]
	if built == nil && ref != "" && !strings.HasPrefix(ref, "missing") && !strings.HasPrefix(ref, builtRef) {
		return baseImage
	}
	return built
}

// PullImage implements environment.Provider.
func (p *Provider) PullImage(ctx context.Context, ref string, progress func(string)) error {
	if p.image(ref) == nil {
		return &environment.Error{Kind: environment.KindPull, Err: fmt.Errorf("pull image %s: there is no such image", ref)}
	}
	if progress != nil {
		progress(ref + " is present")
	}
	return ctx.Err()
}

// List implements environment.Provider.
func (p *Provider) List(ctx context.Context) ([]environment.Listed, error) {
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	var all []environment.Listed
	for _, id := range slices.Sorted(maps.Keys(p.world.environments)) {
		e := p.world.environments[id]
		all = append(all, environment.Listed{ID: id, Labels: e.labels, Kept: e.is(stopped)})
	}
	return all, ctx.Err()
}

// Remove implements environment.Provider.
func (p *Provider) Remove(ctx context.Context, id string) error {
	if e := p.world.find(id); e != nil && ctx.Err() == nil {
		e.destroy()
	}
	return ctx.Err()
}

// Close implements environment.Provider.
func (p *Provider) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(p.mine)) {
		if !p.mine[id].is(stopped) && p.world.find(id) != nil {
			p.complain(fmt.Sprintf("closed with environment %s (%s), which was never destroyed", id, p.mine[id].labels.Trial))
		}
	}
	return nil
}

// maxCPUs is how many processors the machine pretends to have.
const maxCPUs = 1024

// CreateEnvironment implements environment.Provider.
func (p *Provider) CreateEnvironment(ctx context.Context, opts environment.CreateOptions) (environment.Environment, error) {
	img := p.image(opts.Image)
	if img == nil {
		return nil, &environment.Error{Kind: environment.KindStart, Err: fmt.Errorf("create environment: there is no image %q: %w", opts.Image, environment.ErrNoImage)}
	}
	if opts.Limits.MilliCPUs > maxCPUs*1000 {
		return nil, &environment.Error{Kind: environment.KindResources, Err: fmt.Errorf("create environment: the machine has %d processors", maxCPUs)}
	}
	m := newMachine(img.root, p.world)
	if err := m.network.change(opts.Network); err != nil {
		return nil, err
	}
	m.storage = opts.Limits.Storage
	if opts.Limits.Pids > 0 {
		m.maxProcs = int(opts.Limits.Pids)
	}
	e := &Environment{provider: p, m: m, image: img, env: maps.Clone(img.env), labels: opts.Labels, ended: make(chan struct{})}
	maps.Copy(e.env, opts.Env)
	if err := errors.Join(m.mkdirAll(nil, img.workDir), m.unpack(opts.Files), ctx.Err()); err != nil {
		return nil, err
	}
	p.world.mu.Lock()
	p.world.made++
	e.id = fmt.Sprintf("fake-%06d", p.world.made)
	p.world.environments[e.id] = e
	p.world.mu.Unlock()
	p.mu.Lock()
	p.mine[e.id] = e
	p.mu.Unlock()
	if err := e.enter(ctx); err != nil {
		e.destroy()
		return nil, err
	}
	return e, nil
}
