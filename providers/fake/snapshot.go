package fake

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/environment"
)

// snapshotRef begins the references of images that Snapshot keeps.
const snapshotRef = builtRef + "layer:"

// Snapshot implements environment.Snapshottable: with a copy of all files.
func (e *Environment) Snapshot(ctx context.Context, opts environment.SnapshotOptions) (string, error) {
	end, err := e.begin(ctx, "snapshot", running)
	if err != nil {
		return "", err
	}
	defer end()
	e.end(spent)
	if !maps.Equal(e.env, e.image.env) {
		return "", &environment.Error{Kind: environment.KindSnapshot, Err: errors.New("the environment has variables of its own")}
	}
	e.m.mu.Lock()
	root := e.m.root.clone()
	e.m.mu.Unlock()
	if opts.Inspect != nil {
		if err := inspectChanges(ctx, "/", root, e.image.root, opts.Inspect); err != nil {
			return "", &environment.Error{Kind: environment.KindSnapshot, Err: fmt.Errorf("keep environment %s as an image: %w", e.id, err)}
		}
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	w, ref := e.provider.world, snapshotRef+opts.Key
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept++
	w.images[ref] = &image{
		id: fmt.Sprintf("snapshot %d", w.kept), from: e.image, about: opts.Description, used: time.Now(),
		root: root.freeze(), env: e.image.env, workDir: e.image.workDir, user: e.image.user,
		entrypoint: e.image.entrypoint, shell: e.image.shell, healthcheck: e.image.healthcheck,
	}
	return ref, nil
}

// inspectChanges shows what n has that before, the node of the same name in the image, has not.
func inspectChanges(ctx context.Context, name string, n, before *node, inspect func(*tar.Header, io.Reader) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if before == nil || before.mode != n.mode || !before.modified.Equal(n.modified) || before.size != n.size || before.target != n.target {
		header, err := tar.FileInfoHeader(n.info(path.Base(name)), n.target)
		if err != nil {
			return err
		}
		header.Name = name
		content := io.Reader(&nodeReader{n: n})
		if !n.mode.IsRegular() {
			content = strings.NewReader("")
		}
		if err := inspect(header, content); err != nil {
			return err
		}
	}
	for _, child := range slices.Sorted(maps.Keys(n.children)) {
		var old *node
		if before != nil {
			old = before.children[child]
		}
		if err := inspectChanges(ctx, path.Join(name, child), n.children[child], old, inspect); err != nil {
			return err
		}
	}
	return nil
}

// nodeReader reads a file that nobody changes.
type nodeReader struct {
	n  *node
	at int64
}

func (r *nodeReader) Read(p []byte) (int, error) {
	got := r.n.readAt(p, r.at)
	r.at += int64(got)
	if got == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return got, nil
}

// ImageID implements environment.ImageIdentifier.
func (p *Provider) ImageID(ctx context.Context, ref string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	img := p.image(ref)
	if img == nil {
		return "", &environment.Error{Kind: environment.KindStart, Err: fmt.Errorf("%s: %w", ref, environment.ErrNoImage)}
	}
	if img == baseImage {
		return "base " + ref, nil
	}
	return img.id, nil
}

// FindSnapshot implements environment.Snapshotter.
func (p *Provider) FindSnapshot(ctx context.Context, key string) (ref, description string, err error) {
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	if img := p.world.images[snapshotRef+key]; img != nil {
		img.used = time.Now()
		return snapshotRef + key, img.about, ctx.Err()
	}
	return "", "", ctx.Err()
}

// LockSnapshot implements environment.Snapshotter.
func (p *Provider) LockSnapshot(ctx context.Context, key string) (func(), error) {
	w := p.world
	for {
		w.mu.Lock()
		held := w.locks[key]
		if held == nil {
			free := make(chan struct{})
			w.locks[key] = free
			w.mu.Unlock()
			return func() {
				w.mu.Lock()
				delete(w.locks, key)
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

// Images implements environment.ImageStore. Sizes are those of the files alone.
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

// uses tells whether an environment stands on an image.
func (w *World) uses(img *image) bool {
	for _, e := range w.environments {
		if e.image == img {
			return true
		}
	}
	return false
}

// RemoveImage implements environment.ImageStore.
func (p *Provider) RemoveImage(ctx context.Context, id string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w := p.world
	w.mu.Lock()
	defer w.mu.Unlock()
	if img := w.images[id]; img != nil && w.uses(img) {
		return fmt.Errorf("remove image %s: an environment uses it", id)
	}
	delete(w.images, id)
	return nil
}

// Disk implements environment.LocalDisk: everything is in memory.
func (p *Provider) Disk() string { return "" }

// bytes is how much data a tree has.
func (n *node) bytes() int64 {
	sum := int64(len(n.data))
	for _, child := range n.children {
		sum += child.bytes()
	}
	return sum
}
