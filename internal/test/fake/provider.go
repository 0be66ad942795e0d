// Package fake implements an environment.Provider for tests of code that uses providers:
// environments in memory, whose bash is mvdan.cc/sh with a few commands. It has no processes, no
// network, no user but root and no ENTRYPOINT; environmenttest lists its other limitations.
// Releases do not contain it: tests pass it to cli.Main.
package fake

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
)

// Name is the value of environment.type that selects this provider.
const Name = "fake"

// Options change what a provider does.
type Options struct {
	// World is shared with other providers; nil: a new one.
	World *World
	// Complain is called when a caller breaks the rules of the contract: by using an environment
	// after its end, by calling two methods concurrently that exclude each other, or by closing the
	// provider with environments that were neither destroyed nor stopped.
	Complain func(complaint string)
}

// World holds the images and environments that providers share, as real providers share an engine.
type World struct {
	mu           sync.Mutex
	made         int // environments so far
	kept         int // images so far
	environments map[string]*Environment
	images       map[string]*image
	locks        map[string]chan struct{} // of builds and keys of snapshots; a held lock has an element
}

// NewWorld returns an empty world.
func NewWorld() *World {
	return &World{environments: map[string]*Environment{}, images: map[string]*image{}, locks: map[string]chan struct{}{}}
}

// lock waits until the lock of this name is free, and takes it.
func (w *World) lock(ctx context.Context, name string) (unlock func(), err error) {
	w.mu.Lock()
	if w.locks[name] == nil {
		w.locks[name] = make(chan struct{}, 1)
	}
	lock := w.locks[name]
	w.mu.Unlock()
	select {
	case lock <- struct{}{}:
		return func() { <-lock }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Lose destroys an environment, simulating an accident.
func (w *World) Lose(id string) {
	if e := w.find(id); e != nil {
		_ = e.Destroy(context.Background()) // this context never ends
	}
}

func (w *World) find(id string) *Environment {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.environments[id]
}

// image is a tree of files and the settings for commands in it.
type image struct {
	root    *node // is cloned and never changed
	env     map[string]string
	workDir string

	id    string    // of this build or snapshot
	from  *image    // the image that it was made from; nil for baseImage
	about string    // description
	used  time.Time // last
}

// baseImage stands for every image that was not built here.
var baseImage = &image{root: baseRoot(), env: map[string]string{"PATH": defaultPath}, workDir: "/"}

// Provider is an environment.Provider.
type Provider struct {
	world    *World
	complain func(string)
}

var _ environment.Provider = (*Provider)(nil)

// New returns a provider. It cannot fail.
func New(opts Options) *Provider {
	p := &Provider{world: opts.World, complain: opts.Complain}
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

// image returns the image of a reference, or nil. Every name exists unless it begins with
// "missing".
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
		all = append(all, environment.Listed{ID: id, Labels: e.labels, Kept: e.now() == stopped, Size: e.kept})
	}
	return all, ctx.Err()
}

// Remove implements environment.Provider.
func (p *Provider) Remove(ctx context.Context, id string) error {
	if e := p.world.find(id); e != nil {
		return e.Destroy(ctx)
	}
	return ctx.Err()
}

// Close implements environment.Provider.
func (p *Provider) Close() error {
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(p.world.environments)) {
		if e := p.world.environments[id]; e.provider == p && e.now() != stopped {
			p.complain(fmt.Sprintf("closed with environment %s (%s), which was never destroyed", id, e.labels.Trial))
		}
	}
	return nil
}

// CreateEnvironment implements environment.Provider.
func (p *Provider) CreateEnvironment(ctx context.Context, opts environment.CreateOptions) (environment.Environment, error) {
	img := p.image(opts.Image)
	if img == nil {
		return nil, &environment.Error{Kind: environment.KindStart, Err: fmt.Errorf("create environment: there is no image %q: %w", opts.Image, environment.ErrNoImage)}
	}
	if opts.Network.Mode == environment.NetworkAllowlist {
		return nil, &environment.Error{Kind: environment.KindStart, Err: errors.New("create environment: the fake environment has no network, and no proxy")}
	}
	return p.create(ctx, p.newEnvironment(img), opts)
}

// Restore implements environment.Restorer.
func (p *Provider) Restore(ctx context.Context, id string, opts environment.CreateOptions) (environment.Environment, error) {
	kept := p.world.find(id)
	if kept == nil {
		return nil, &environment.Error{Kind: environment.KindStart, Err: fmt.Errorf("restore environment %s: %w", id, fs.ErrNotExist)}
	}
	if state := kept.now(); state != stopped {
		return nil, &environment.Error{Kind: environment.KindStart, Err: fmt.Errorf("restore environment %s, which %v", id, state)}
	}
	e := p.newEnvironment(kept.image)
	kept.mu.Lock()
	e.root = kept.root.clone()
	kept.mu.Unlock()
	return p.create(ctx, e, opts)
}

// create starts an environment.
func (p *Provider) create(ctx context.Context, e *Environment, opts environment.CreateOptions) (environment.Environment, error) {
	e.labels = opts.Labels
	maps.Copy(e.env, opts.Env)
	if err := errors.Join(e.own.mkdirAll(e.image.workDir), e.unpack(opts.Files), ctx.Err()); err != nil {
		return nil, err
	}
	p.add(e)
	return e, nil
}

// add assigns an id to an environment and makes it available under that.
func (p *Provider) add(e *Environment) {
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	p.world.made++
	e.id = fmt.Sprintf("fake-%06d", p.world.made)
	p.world.environments[e.id] = e
}
