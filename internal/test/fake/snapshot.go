package fake

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"

	"github.com/org/rollout-action/internal/core/environment"
)

// snapshotRef begins the references of images that Snapshot makes.
const snapshotRef = builtRef + "layer:"

// Snapshot implements environment.Snapshottable.
func (e *Environment) Snapshot(ctx context.Context, opts environment.SnapshotOptions) (string, error) {
	end, err := e.begin(ctx, "Snapshot", running)
	if err != nil {
		return "", err
	}
	defer end()
	e.end(spent)
	if !maps.Equal(e.env, e.image.env) {
		err = errors.New("the environment was created with variables")
	} else if opts.Inspect != nil {
		err = inspect(ctx, "/", e.root, e.image.root, opts.Inspect)
	}
	if err != nil && ctx.Err() == nil {
		return "", &environment.Error{Kind: environment.KindSnapshot, Err: fmt.Errorf("keep environment %s as an image: %w", e.id, err)}
	}
	img := *e.image
	img.from, img.about = e.image, opts.Description
	e.provider.world.keep(snapshotRef+opts.Key, img, e.root)
	return snapshotRef + opts.Key, ctx.Err()
}

// inspect calls look with the nodes of n that differ from before, the node of this name in the
// image.
func inspect(ctx context.Context, name string, n, before *node, look func(*tar.Header, io.Reader) error) error {
	if before == nil {
		before = &node{}
	}
	if before.mode != n.mode || !before.modified.Equal(n.modified) || before.target != n.target || !bytes.Equal(before.data, n.data) {
		if err := look(n.header(name), bytes.NewReader(n.data)); err != nil {
			return err
		}
	}
	for _, child := range slices.Sorted(maps.Keys(n.children)) {
		if err := inspect(ctx, path.Join(name, child), n.children[child], before.children[child], look); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// ImageID implements environment.ImageIdentifier.
func (p *Provider) ImageID(ctx context.Context, ref string) (string, error) {
	img := p.image(ref)
	switch {
	case img == nil:
		return "", &environment.Error{Kind: environment.KindStart, Err: fmt.Errorf("%s: %w", ref, environment.ErrNoImage)}
	case img == baseImage:
		return "base " + ref, ctx.Err()
	}
	return img.id, ctx.Err()
}

// FindSnapshot implements environment.Snapshotter.
func (p *Provider) FindSnapshot(ctx context.Context, key string) (ref, description string, err error) {
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	if img := p.world.images[snapshotRef+key]; img != nil {
		return snapshotRef + key, img.about, ctx.Err()
	}
	return "", "", ctx.Err()
}

// LockSnapshot implements environment.Snapshotter.
func (p *Provider) LockSnapshot(ctx context.Context, key string) (func(), error) {
	return p.world.lock(ctx, snapshotRef+key)
}

// Images implements environment.ImageStore. A size is that of the files.
func (p *Provider) Images(ctx context.Context) ([]environment.Image, error) {
	w := p.world
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []environment.Image
	for _, ref := range slices.Sorted(maps.Keys(w.images)) {
		img := w.images[ref]
		listed := environment.Image{ID: ref, Name: ref, Size: img.root.bytes(), Used: img.used, InUse: w.uses(img)}
		if img.about != "" {
			listed.Name += " (" + img.about + ")"
		}
		for under, other := range w.images {
			if other == img.from {
				listed.Needs = append(listed.Needs, under)
			}
		}
		all = append(all, listed)
	}
	return all, ctx.Err()
}

// uses reports whether an environment uses an image.
func (w *World) uses(img *image) bool {
	for _, e := range w.environments {
		if e.image == img {
			return true
		}
	}
	return false
}

// bytes returns the size of the data in a tree.
func (n *node) bytes() int64 {
	sum := int64(len(n.data))
	for _, child := range n.children {
		sum += child.bytes()
	}
	return sum
}

// RemoveImage implements environment.ImageStore.
func (p *Provider) RemoveImage(ctx context.Context, id string) error {
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	if img := p.world.images[id]; img != nil && p.world.uses(img) {
		return fmt.Errorf("remove image %s: an environment uses it", id)
	}
	delete(p.world.images, id)
	return ctx.Err()
}
