//go:build linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/initwire"
)

// Restore implements environment.Restorer. The changes of the kept environment become a layer of
// the new one, without a copy.
func (p *Provider) Restore(ctx context.Context, id string, opts environment.CreateOptions) (environment.Environment, error) {
	refused := func(err error) error {
		return &environment.Error{Kind: environment.KindStart, Err: fmt.Errorf("restore sandbox %s: %w", id, err)}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := checkLimits(opts.Limits); err != nil {
		return nil, err
	}
	dir := p.store.path("env", id)
	var m meta
	if !idPattern.MatchString(id) {
		return nil, refused(fs.ErrNotExist)
	}
	if err := readJSON(filepath.Join(dir, "meta.json"), &m); err != nil {
		return nil, refused(err)
	}
	if !exists(filepath.Join(dir, "kept")) {
		return nil, refused(errors.New("it was not kept"))
	}
	if m.Kept != "" {
		return nil, refused(fmt.Errorf("its files are partly those of another one, %s", m.Kept))
	}
	img, err := p.image(ctx, opts.Image, nil)
	if err != nil {
		return nil, err
	}
	host := ""
	if img.Host != nil {
		host = img.Host.Key
	}
	if !slices.Equal(m.Layers, p.layersOf(img)) || m.Host != host {
		return nil, refused(fmt.Errorf("the image %s has changed since the environment was created", opts.Image))
	}
	if !exists(filepath.Join(dir, "up")) {
		return nil, refused(errors.New("its changed files were kept in memory and are lost"))
	}
	return p.begin(ctx, &sandboxEnv{p: p, id: newID(), img: img, env: opts.Env, kept: id}, opts)
}

// continueWith puts the changes of the kept environment on top of the layers of mounts. It does
// nothing if kept is empty.
func (e *sandboxEnv) continueWith(kept string, mounts []initwire.Mount) {
	if kept == "" {
		return
	}
	for i := range mounts {
		if changes := path.Join("env", kept, "up", partName(mounts[i].At)); exists(e.p.store.path(changes)) {
			mounts[i].Lower = append([]string{changes}, mounts[i].Lower...)
		}
	}
}
