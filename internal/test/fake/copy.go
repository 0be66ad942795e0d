package fake

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/org/rollout-action/internal/core/environment"
)

// CopyTo implements environment.Environment.
func (e *Environment) CopyTo(ctx context.Context, files ...environment.Copy) error {
	end, err := e.begin(ctx, "CopyTo", running)
	if err != nil {
		return err
	}
	defer end()
	if err := e.unpack(files); err != nil {
		return err
	}
	if e.ctx.Err() != nil {
		return e.lost(e.now())
	}
	return ctx.Err()
}

// unpack copies files into the environment with a tar stream, as other providers do.
func (e *Environment) unpack(files []environment.Copy) error {
	if len(files) == 0 {
		return nil
	}
	var stream bytes.Buffer
	err := environment.Pack(&stream, files...)
	archive := tar.NewReader(&stream)
	for err == nil {
		var header *tar.Header
		if header, err = archive.Next(); err != nil {
			break
		}
		n := newDir(header.Mode)
		switch header.Typeflag {
		case tar.TypeReg:
			n = newFile(header.Mode, make([]byte, header.Size))
			_, err = io.ReadFull(archive, n.data)
		case tar.TypeSymlink:
			n = &node{mode: 0o777, target: header.Linkname, modified: header.ModTime}
		case tar.TypeLink:
			err = e.own.find("/"+header.Linkname, false, func(at place) error { n = at.node; return nil })
		}
		err = errors.Join(err, e.replace("/"+header.Name, n))
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return &environment.Error{Kind: environment.KindCopy, Err: fmt.Errorf("copy into the environment: %w", err)}
}

// replace sets the node at a path as tar does: it follows links only in directories, and replaces
// nodes of another type.
func (e *Environment) replace(name string, n *node) error {
	if err := e.own.mkdirAll(path.Dir(path.Clean(name))); err != nil {
		return err
	}
	return e.own.at(name, false, func(at place) error {
		if at.node != nil && at.node.children != nil && n.children != nil {
			at.node.mode = n.mode
			return nil
		}
		return at.put(n)
	})
}

// CopyFrom implements environment.Environment. It also works in a stopped environment.
func (e *Environment) CopyFrom(ctx context.Context, src, dst string, opts environment.ExtractOptions) (environment.Extracted, error) {
	end, err := e.begin(ctx, "CopyFrom", stopped)
	if err != nil {
		return environment.Extracted{}, err
	}
	defer end()
	var tree *node
	err = e.own.find(src, false, func(at place) error { tree = at.node.clone(); return nil })
	if errors.Is(err, syscall.ENOTDIR) {
		err = fs.ErrNotExist
	}
	name := strings.Replace(path.Base(src), "/", "root", 1)
	var stream bytes.Buffer
	var out environment.Extracted
	if err == nil {
		archive := tar.NewWriter(&stream)
		err = errors.Join(tree.pack(archive, name), archive.Close())
	}
	if err == nil {
		out, err = environment.Extract(&stream, dst, name, opts)
	}
	switch {
	case ctx.Err() != nil:
		return out, ctx.Err()
	case err != nil:
		return out, &environment.Error{Kind: environment.KindCopy, Err: fmt.Errorf("copy %s out of the environment: %w", src, err)}
	}
	return out, nil
}

// pack writes a tree as tar does, except that hard links become files.
func (n *node) pack(w *tar.Writer, name string) error {
	if err := w.WriteHeader(n.header(name)); err != nil {
		return err
	}
	_, err := w.Write(n.data)
	for _, child := range slices.Sorted(maps.Keys(n.children)) {
		err = errors.Join(err, n.children[child].pack(w, name+"/"+child))
	}
	return err
}
