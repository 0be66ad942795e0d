//go:build linux

package sandbox

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/initproc"
)

// Snapshot implements environment.Snapshottable. The sandbox's changes become a layer of the store,
// without a copy.
func (e *sandboxEnv) Snapshot(ctx context.Context, opts environment.SnapshotOptions) (string, error) {
	e.process.End()
	if err := e.checkSnapshot(); err != nil {
		return "", &environment.Error{Kind: environment.KindSnapshot, Err: fmt.Errorf("make an image of sandbox %s: %w", e.id, err)}
	}
	s := e.p.store
	if opts.Inspect != nil {
		if err := s.inspect(ctx, e.dir(), opts.Inspect); err != nil {
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			return "", &environment.Error{Kind: environment.KindSnapshot, Err: fmt.Errorf("make an image of sandbox %s: %w", e.id, err)}
		}
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	id, ref := digest("snapshot "+newID()), snapshotRef(opts.Key)
	err := s.addLayer(e.dir(), id)
	if err == nil {
		img := *e.img
		img.ID, img.Name, img.Layers = "snapshot "+id, opts.Description, append(slices.Clone(e.img.Layers), id)
		err = e.p.recordImage(ref, &img)
	}
	if err != nil {
		return "", &environment.Error{Kind: environment.KindSnapshot, Err: fmt.Errorf("make an image of sandbox %s: %w", e.id, err)}
	}
	return ref, nil
}

// snapshotRef returns the reference of the image with a key.
func snapshotRef(key string) string { return builtPrefix + "layer:" + key }

func (e *sandboxEnv) checkSnapshot() error {
	switch {
	case len(e.env) > 0:
		return errors.New("it was created with variables, and images must not have them")
	case e.p.memory:
		return errInMemory
	}
	return nil
}

// FindSnapshot implements environment.Snapshotter.
func (p *Provider) FindSnapshot(_ context.Context, key string) (ref, description string, err error) {
	img, err := p.builtImage(snapshotRef(key))
	if errors.Is(err, environment.ErrNoImage) {
		return "", "", nil
	}
	if err != nil {
		return "", "", err
	}
	p.touch(img, snapshotRef(key))
	return snapshotRef(key), img.Name, nil
}

// LockSnapshot implements environment.Snapshotter.
func (p *Provider) LockSnapshot(ctx context.Context, key string) (func(), error) {
	return p.store.lock(ctx, "snapshot-"+digest(key)[:2])
}

// ImageID implements environment.ImageIdentifier.
func (p *Provider) ImageID(ctx context.Context, ref string) (string, error) {
	img, err := p.image(ctx, ref, nil)
	if err != nil {
		return "", err
	}
	return img.ID, nil
}

// Disk implements environment.LocalDisk.
func (p *Provider) Disk() string { return p.store.dir }

// inspect calls see for each changed file of an environment.
func (s *store) inspect(ctx context.Context, dir string, see func(*tar.Header, io.Reader) error) error {
	up := filepath.Join(dir, "up")
	r, w := io.Pipe()
	go func() {
		if s.mode.usesUserNamespace() {
			w.CloseWithError(s.mode.work(ctx, workPack, up, nil, w)) // may read all files
			return
		}
		w.CloseWithError(initproc.PackAll(up, w))
	}()
	defer r.Close()
	stop := context.AfterFunc(ctx, func() { r.CloseWithError(ctx.Err()) })
	defer stop()
	for archive := tar.NewReader(r); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if header.Name = pathInSandbox(header.Name); header.Name == "" {
			continue
		}
		if err := see(header, archive); err != nil {
			return err
		}
	}
}

// pathInSandbox returns the path in a sandbox of PART/path in a layer. It returns "" for the root
// and for parts themselves.
func pathInSandbox(name string) string {
	part, below, _ := strings.Cut(strings.TrimSuffix(name, "/"), "/")
	if below == "" {
		return ""
	}
	if part == rootPart {
		return "/" + below
	}
	return path.Join(strings.ReplaceAll(part, "+", "/"), below)
}
