package fake

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
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

	"github.com/org/rollout-action/internal/environment"
)

// CopyTo implements environment.Environment.
func (e *Environment) CopyTo(ctx context.Context, files ...environment.Copy) error {
	end, err := e.begin(ctx, "CopyTo", running)
	if err != nil {
		return err
	}
	defer end()
	if err := e.m.unpack(files); err != nil {
		return err
	}
	if e.lostNow() {
		return e.lost()
	}
	return ctx.Err()
}

// unpack puts files into the machine with a tar stream, as other providers do.
func (m *machine) unpack(files []environment.Copy) error {
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
		n := newNode(header.FileInfo().Mode().Perm()|header.FileInfo().Mode().Type(), "")
		if header.Typeflag == tar.TypeReg {
			n.data, n.size = make([]byte, header.Size), header.Size
			_, err = io.ReadFull(archive, n.data)
		}
		err = errors.Join(err, m.replace("/"+header.Name, n))
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return &environment.Error{Kind: environment.KindCopy, Err: fmt.Errorf("copy into the environment: %w", err)}
}

// replace puts a node at a path as tar does: it follows links in directories only, and replaces what is of another type.
func (m *machine) replace(name string, n *node) error {
	name = strings.TrimRight(name, "/")
	if err := m.mkdirAll(nil, path.Dir(name)); err != nil {
		return err
	}
	return m.at(nil, name, false, func(at place) error {
		if at.node != nil && at.node.mode.IsDir() && n.mode.IsDir() {
			at.node.mode = n.mode
			return nil
		}
		if at.node != nil {
			if err := m.unlink(nil, at, true); err != nil {
				return err
			}
		}
		at.node = nil
		m.used += n.size
		return (*process)(nil).insert(at, n)
	})
}

// CopyFrom implements environment.Environment. It also works in a stopped environment.
func (e *Environment) CopyFrom(ctx context.Context, src, dst string, opts environment.ExtractOptions) (environment.Extracted, error) {
	end, err := e.begin(ctx, "CopyFrom", stopped)
	if err != nil {
		return environment.Extracted{}, err
	}
	defer end()
	fails := func(err error) error {
		return &environment.Error{Kind: environment.KindCopy, Err: fmt.Errorf("copy %s out of the environment: %w", src, err)}
	}
	var tree *node
	err = e.m.find(nil, src, false, func(at place) error { tree = at.node.clone(map[*node]*node{}); return nil })
	if errors.Is(err, syscall.ENOTDIR) {
		err = fs.ErrNotExist
	}
	if err != nil {
		return environment.Extracted{}, fails(err)
	}
	name := strings.Replace(base(src), "/", "root", 1)
	r, w := io.Pipe()
	go func() {
		buffered := bufio.NewWriter(w)
		archive := tar.NewWriter(buffered)
		err := tree.pack(archive, name, map[*node]string{})
		_ = w.CloseWithError(errors.Join(err, archive.Close(), buffered.Flush()))
	}()
	defer context.AfterFunc(ctx, func() { _ = r.CloseWithError(ctx.Err()) })()
	out, err := environment.Extract(r, dst, name, opts)
	_ = r.CloseWithError(errors.New("the copy has ended"))
	if err != nil && ctx.Err() == nil {
		err = fails(err)
	}
	return out, cmp.Or(ctx.Err(), err)
}

// pack writes a tree as tar does. done has the first name of each file with several.
func (n *node) pack(w *tar.Writer, name string, done map[*node]string) error {
	if first, ok := done[n]; ok {
		return w.WriteHeader(&tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: first})
	}
	if n.links > 1 {
		done[n] = name
	}
	header, err := tar.FileInfoHeader(n.info(path.Base(name)), n.target)
	if err != nil {
		return err
	}
	header.Name, header.Uid, header.Gid = name, n.uid, n.gid
	if n.mode.IsDir() {
		header.Name += "/"
	}
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	if n.size == int64(len(n.data)) {
		_, err = w.Write(n.data)
	} else { // a copy takes a buffer
		_, err = io.Copy(w, io.NewSectionReader(n, 0, n.size))
	}
	for _, child := range slices.Sorted(maps.Keys(n.children)) {
		if err := n.children[child].pack(w, name+"/"+child, done); err != nil {
			return err
		}
	}
	return err
}
