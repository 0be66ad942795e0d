//go:build linux

package sandbox

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/lib/awake"
	"github.com/org/rollout-action/providers/internal/initwire"
)

// errInMemory is the error for changes that only the sandbox's own processes can read.
var errInMemory = errors.New("its changed files are in memory (provider_config.scratch, or a file system that cannot hold overlays)")

// Changes implements environment.ChangeReporter. It reads the sandbox's changes from a directory of
// the store, and files of the image from another sandbox on it that runs no commands.
func (e *sandboxEnv) Changes(ctx context.Context, opts environment.ChangeOptions) (environment.Changes, error) {
	doing := "list the changed files of the sandbox"
	if !e.process.Running() {
		return environment.Changes{}, e.lost(doing)
	}
	if e.p.memory {
		return environment.Changes{}, &environment.Error{Kind: environment.KindCopy, Err: fmt.Errorf("%s: %w: %w", doing, errInMemory, errors.ErrUnsupported)}
	}
	out, err := e.changes(ctx, opts)
	return out, e.requestFailed(ctx, environment.KindCopy, doing, err)
}

// overlayfs's marks. A whiteout is a device with the number 0/0. Sources:
// Documentation/filesystems/overlayfs.rst
const (
	opaqueRecord     = "SCHILY.xattr.trusted.overlay.opaque"
	opaqueUserRecord = "SCHILY.xattr.user.overlay.opaque"
)

func (e *sandboxEnv) changes(ctx context.Context, opts environment.ChangeOptions) (out environment.Changes, err error) {
	after := map[string]*environment.FileState{} // nil: deleted
	emptied := map[string]bool{}                 // directories that replaced another one
	var paths []string
	err = e.p.store.inspect(ctx, e.dir(), func(h *tar.Header, _ io.Reader) error {
		if len(paths) >= maxChanged {
			return errTooMany
		}
		s := &environment.FileState{Mode: h.FileInfo().Mode(), Link: h.Linkname}
		switch {
		case h.Typeflag == tar.TypeChar && h.Devmajor == 0 && h.Devminor == 0:
			s = nil
		case h.Typeflag == tar.TypeReg:
			s.Size = h.Size
		case h.Typeflag == tar.TypeDir:
			if h.PAXRecords[opaqueRecord] == "y" || h.PAXRecords[opaqueUserRecord] == "y" {
				emptied[path.Clean(h.Name)] = true
			}
		}
		name := path.Clean(h.Name)
		after[name] = s
		paths = append(paths, name)
		return nil
	})
	if err != nil {
		return out, err
	}
	listable := environment.Leaves(paths)
	for name := range emptied {
		listable = append(listable, name)
	}
	chosen, more := opts.Choose(listable)
	out.More = more
	if err := e.readChanged(ctx, chosen, after, opts.Text); err != nil {
		return out, err
	}
	image, err := e.p.begin(ctx, &sandboxEnv{p: e.p, id: newID(), img: e.img}, e.forImage())
	if err != nil {
		return out, fmt.Errorf("make a sandbox for the files of its image: %w", err)
	}
	defer func() {
		c, cancel := awake.WithTimeout(context.WithoutCancel(ctx), destroyTimeout)
		defer cancel()
		_ = image.Destroy(c) // the next run removes the remainder
	}()
	for _, name := range chosen {
		c := environment.Change{Path: name, After: after[name], Emptied: emptied[name]}
		if c.Before, err = image.(*sandboxEnv).fileState(ctx, name, opts.Text); err != nil {
			return out, err
		}
		if c.Emptied = c.Emptied && c.Before != nil; c.Emptied || !c.Before.Same(c.After) {
			out.Files = append(out.Files, c)
		}
	}
	return out, ctx.Err()
}

// maxChanged bounds how many changed files are examined: agents can make millions.
const maxChanged = 500_000

var errTooMany = fmt.Errorf("more than %d files have changed", maxChanged)

// forImage returns the options of a sandbox for reading files of the image.
func (e *sandboxEnv) forImage() environment.CreateOptions {
	var m meta
	o := environment.CreateOptions{Network: environment.Network{Mode: environment.NetworkNone}}
	if readJSON(e.p.store.path("env", e.id, "meta.json"), &m) == nil {
		o.Labels = environment.ParseLabels(m.Labels)
	}
	return o
}

// readChanged reads the texts of the chosen files.
func (e *sandboxEnv) readChanged(ctx context.Context, chosen []string, after map[string]*environment.FileState, most int64) error {
	wanted := map[string]bool{}
	for _, name := range chosen {
		if s := after[name]; s != nil && s.Mode.IsRegular() && s.Size <= most {
			wanted[name] = true
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	return e.p.store.inspect(ctx, e.dir(), func(h *tar.Header, content io.Reader) error {
		name := path.Clean(h.Name)
		if !wanted[name] || h.Typeflag != tar.TypeReg || h.Size > most {
			return nil
		}
		text, err := io.ReadAll(content)
		after[name].Size, after[name].Text = int64(len(text)), text
		return err
	})
}

// fileState describes a file of a sandbox that runs no commands. It returns nil if the file does
// not exist.
func (e *sandboxEnv) fileState(ctx context.Context, name string, most int64) (s *environment.FileState, err error) {
	reading, err := e.process.Get(ctx, initwire.Request{Op: initwire.Pack, Path: name, Prefix: "file", Plain: true, Itself: true}, func(r io.Reader) error {
		files := tar.NewReader(r)
		h, err := files.Next()
		if err != nil {
			return err
		}
		s = &environment.FileState{Mode: h.FileInfo().Mode(), Link: h.Linkname}
		if h.Typeflag == tar.TypeReg {
			if s.Size = h.Size; s.Size <= most {
				s.Text, err = io.ReadAll(files)
			}
		}
		return err
	})
	switch {
	case s != nil && reading == nil:
		return s, nil // the stream was not read to its end
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	}
	return nil, errors.Join(reading, err)
}
