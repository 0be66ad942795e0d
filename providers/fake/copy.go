package fake

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/org/rollout-action/internal/environment"
)

// CopyTo implements environment.Environment.
func (e *Environment) CopyTo(ctx context.Context, files ...environment.Copy) error {
	end, err := e.begin(ctx, "copy_to", running)
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

// streams are for tar streams on their way in; most are small.
var streams = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// unpack puts files into the machine by way of a tar stream, as for any other environment.
func (m *machine) unpack(files []environment.Copy) error {
	if len(files) == 0 {
		return nil
	}
	stream := streams.Get().(*bytes.Buffer)
	err := environment.Pack(stream, files...)
	if err == nil {
		err = m.untar(stream)
	}
	if stream.Cap() < 1<<20 {
		stream.Reset()
		streams.Put(stream)
	}
	if err != nil {
		return &environment.Error{Kind: environment.KindCopy, Err: fmt.Errorf("copy into the environment: %w", err)}
	}
	return nil
}

// untar unpacks a stream that Pack made, as tar does: what is of another type is replaced, and links are
// followed in folders only.
func (m *machine) untar(r io.Reader) error {
	archive := tar.NewReader(r)
	for {
		header, err := archive.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		n := newDir(header.FileInfo().Mode().Perm())
		if header.Typeflag == tar.TypeReg {
			data := make([]byte, header.Size)
			if _, err := io.ReadFull(archive, data); err != nil {
				return err
			}
			n = newFile(header.FileInfo().Mode().Perm(), "")
			n.data, n.size = data, header.Size
		}
		if err := m.place("/"+header.Name, n); err != nil {
			return err
		}
	}
}

// place puts a node at a path, in the stead of what is there.
func (m *machine) place(name string, n *node) error {
	name = strings.TrimRight(name, "/")
	return m.call(nil, "create", name, func() error {
		if err := m.makeDirs(nil, path.Dir(name), 0o755); err != nil {
			return err
		}
		at, err := m.walk(nil, name, false)
		if err != nil {
			return err
		}
		if at.node != nil && at.node.mode.IsDir() && n.mode.IsDir() {
			at.node.mode = n.mode
			return nil
		}
		if at.node != nil {
			if err := m.unlinkTree(nil, at); err != nil {
				return err
			}
		}
		if err := m.bill(n, int64(len(n.data))); err != nil {
			return err
		}
		return m.insert(nil, place{dir: at.dir, name: at.name}, n)
	})
}

// CopyFrom implements environment.Environment. It works on a stopped environment too.
func (e *Environment) CopyFrom(ctx context.Context, src, dst string, opts environment.ExtractOptions) (environment.Extracted, error) {
	end, err := e.begin(ctx, "copy_from", stopped)
	if err != nil {
		return environment.Extracted{}, err
	}
	defer end()
	tree, err := e.m.snapshot(src)
	if err != nil {
		return environment.Extracted{}, err
	}
	name := strings.Replace(base(src), "/", "root", 1)
	r, w := io.Pipe()
	go func() {
		buffered := bufio.NewWriter(w)
		archive := tar.NewWriter(buffered)
		err := writeTar(archive, name, tree, map[*node]string{})
		_ = w.CloseWithError(errors.Join(err, archive.Close(), buffered.Flush()))
	}()
	stop := context.AfterFunc(ctx, func() { _ = r.CloseWithError(ctx.Err()) })
	defer stop()
	out, err := environment.Extract(r, dst, name, opts)
	_ = r.CloseWithError(errors.New("the copy has ended"))
	if ctx.Err() != nil {
		return out, ctx.Err()
	}
	if err != nil {
		return out, &environment.Error{Kind: environment.KindCopy, Err: fmt.Errorf("copy %s out of the environment: %w", src, err)}
	}
	return out, nil
}

// snapshot is the tree at src as it is now.
func (m *machine) snapshot(src string) (tree *node, err error) {
	err = m.call(nil, "open", src, func() error {
		at, err := m.find(nil, src, false)
		if err == nil {
			tree = at.node.clone()
		}
		if errors.Is(err, syscall.ENOTDIR) {
			err = fs.ErrNotExist
		}
		return err
	})
	if err != nil {
		return nil, &environment.Error{Kind: environment.KindCopy, Err: fmt.Errorf("copy out of the environment: %w", err)}
	}
	return tree, nil
}

// writeTar writes a tree. Files with several names are hard links of the first.
func writeTar(w *tar.Writer, name string, n *node, seen map[*node]string) error {
	if first, ok := seen[n]; ok {
		return w.WriteHeader(&tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: first})
	}
	if n.links > 1 {
		seen[n] = name
	}
	header, err := tar.FileInfoHeader(n.info(base(name)), n.target)
	if err != nil {
		return err
	}
	header.Name, header.Uid, header.Gid = name, n.uid, n.gid
	header.Devmajor, header.Devminor = int64(n.device[0]), int64(n.device[1])
	if n.mode.IsDir() {
		header.Name += "/"
	}
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	if n.mode.IsRegular() {
		_, err := w.Write(n.data)
		if hole := n.size - int64(len(n.data)); err == nil && hole > 0 {
			_, err = io.CopyN(w, zeros{}, hole)
		}
		return err
	}
	names := make([]string, 0, len(n.children))
	for child := range n.children {
		names = append(names, child)
	}
	slices.Sort(names)
	for _, child := range names {
		if err := writeTar(w, name+"/"+child, n.children[child], seen); err != nil {
			return err
		}
	}
	return nil
}

// zeros is what a hole in a file holds.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
