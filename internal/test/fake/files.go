package fake

import (
	"archive/tar"
	"cmp"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// node is a file, a directory or a symbolic link. Directories contain the names.
type node struct {
	mode     int64 // permission bits
	modified time.Time
	data     []byte           // of a file; a clone has the same array
	target   string           // of a link
	children map[string]*node // of a directory, where it is not nil
}

func newFile(mode int64, data []byte) *node {
	return &node{mode: mode, data: data, modified: time.Now()}
}

func newDir(mode int64) *node {
	return &node{mode: mode, children: map[string]*node{}, modified: time.Now()}
}

// clone copies a tree.
func (n *node) clone() *node {
	c := *n
	c.data = slices.Clip(n.data) // appending to one must not change the other
	c.children = maps.Clone(n.children)
	for name, child := range c.children {
		c.children[name] = child.clone()
	}
	return &c
}

// write writes p at an offset, extending the file if necessary.
func (n *node) write(p []byte, at int) {
	if at < len(n.data) {
		n.data = slices.Clone(n.data)
	} else {
		n.data = append(n.data, make([]byte, at-len(n.data))...)
	}
	kept := copy(n.data[at:], p)
	n.data, n.modified = append(n.data, p[kept:]...), time.Now()
}

// header returns the archive header of a node; its name is a path.
func (n *node) header(name string) *tar.Header {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Linkname: n.target, Size: int64(len(n.data)), Mode: n.mode, ModTime: n.modified}
	switch {
	case n.children != nil:
		h.Typeflag = tar.TypeDir
	case n.target != "":
		h.Typeflag = tar.TypeSymlink
	}
	return h
}

// place is the destination of a path: the node, or nil, and the directory and name that it has or
// would have. The root has no directory.
type place struct {
	dir  *node
	name string
	node *node
}

// put sets the node at the place, or removes it if n is nil.
func (p place) put(n *node) error {
	if p.dir == nil {
		return syscall.EBUSY
	}
	p.dir.modified = time.Now()
	if p.dir.children[p.name] = n; n == nil {
		delete(p.dir.children, p.name)
	}
	return nil
}

// walk resolves an absolute path. It follows a link at the end if follow is set. A ".." after a
// link is the directory above the link's target.
func walk(root *node, path string, follow bool) (place, error) {
	if path == "" {
		return place{}, syscall.ENOENT
	}
	rest := elements(path)
	at := []place{{node: root, name: "/"}} // the way from the root
	for links := 0; len(rest) > 0; rest = rest[1:] {
		name, top := rest[0], at[len(at)-1].node
		switch {
		case top == nil:
			return place{}, syscall.ENOENT
		case top.children == nil:
			return place{}, syscall.ENOTDIR
		case name == "..":
			at = at[:max(1, len(at)-1)]
			continue
		}
		child := top.children[name]
		if child == nil || child.target == "" || !follow && len(rest) == 1 {
			at = append(at, place{top, name, child})
			continue
		}
		if links++; links > 40 {
			return place{}, syscall.ELOOP
		}
		if strings.HasPrefix(child.target, "/") {
			at = at[:1]
		}
		rest = slices.Concat([]string{""}, elements(child.target), rest[1:]) // the loop skips the first one
	}
	return at[len(at)-1], nil
}

// elements returns the names in a path, without "" and ".".
func elements(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(e string) bool { return e == "" || e == "." })
}

// locked calls do under the environment's lock, unless the execution has been killed. Errors become
// *fs.PathError.
func (x *execution) locked(path string, do func() error) error {
	x.e.mu.Lock()
	defer x.e.mu.Unlock()
	err := x.ctx.Err()
	if err == nil {
		err = do()
	}
	if err != nil {
		return &fs.PathError{Op: "use", Path: path, Err: err}
	}
	return nil
}

// at calls do with the place of a path.
func (x *execution) at(path string, follow bool, do func(place) error) error {
	return x.locked(path, func() error {
		at, err := walk(x.e.root, path, follow)
		if err != nil {
			return err
		}
		return do(at)
	})
}

// find is like at, but the path must exist.
func (x *execution) find(path string, follow bool, do func(place) error) error {
	return x.at(path, follow, func(at place) error {
		if at.node == nil {
			return syscall.ENOENT
		}
		return do(at)
	})
}

func (x *execution) stat(path string, follow bool) (i fs.FileInfo, err error) {
	return i, x.find(path, follow, func(at place) error { i = at.node.header(at.name).FileInfo(); return nil })
}

// readDir lists a directory by name.
func (x *execution) readDir(path string) (list []fs.DirEntry, err error) {
	err = x.find(path, true, func(at place) error {
		if at.node.children == nil {
			return syscall.ENOTDIR
		}
		for name, child := range at.node.children {
			list = append(list, fs.FileInfoToDirEntry(child.header(name).FileInfo()))
		}
		return nil
	})
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return list, err
}

// add adds a node at a path that does not exist.
func (x *execution) add(path string, n *node) error {
	return x.at(path, false, func(at place) error {
		if at.node != nil {
			return syscall.EEXIST
		}
		return at.put(n)
	})
}

// mkdirAll creates a directory and its parents, unless something else has their names.
func (x *execution) mkdirAll(path string) error {
	names := elements(path)
	for i := range names {
		err := x.add("/"+strings.Join(names[:i+1], "/"), newDir(0o755))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// remove removes a path and, if all is set, everything below it.
func (x *execution) remove(path string, all bool) error {
	return x.find(path, false, func(at place) error {
		if !all && at.node.children != nil {
			return syscall.EISDIR
		}
		return at.put(nil)
	})
}

// link gives the node at from another name. If move is set, it replaces an existing node, and loses
// its old name.
func (x *execution) link(from, to string, move bool) error {
	return x.find(from, false, func(old place) error {
		at, err := walk(x.e.root, to, false)
		switch {
		case err != nil || at.node == old.node:
			return err
		case at.node != nil && !move:
			return syscall.EEXIST
		case at.node != nil && len(at.node.children) > 0:
			return syscall.ENOTEMPTY
		case move:
			err = old.put(nil)
		}
		return cmp.Or(err, at.put(old.node))
	})
}

// file is an open file.
type file struct {
	x      *execution
	node   *node
	path   string
	offset int
	append bool
}

// open opens a file or, with os.O_CREATE, creates it.
func (x *execution) open(path string, flag int, perm fs.FileMode) (io.ReadWriteCloser, error) {
	if path == os.DevNull {
		return os.OpenFile(path, flag, perm) // of the host
	}
	f := &file{x: x, path: path, append: flag&os.O_APPEND != 0}
	return f, x.at(path, true, func(at place) error {
		f.node = at.node
		switch {
		case at.node == nil && flag&os.O_CREATE != 0:
			f.node = newFile(int64(perm), nil)
			return at.put(f.node)
		case at.node == nil:
			return syscall.ENOENT
		case at.node.children != nil:
			return syscall.EISDIR
		case flag&os.O_TRUNC != 0:
			f.node.data, f.node.modified = nil, time.Now()
		}
		return nil
	})
}

func (f *file) Read(p []byte) (n int, err error) {
	err = f.x.locked(f.path, func() error {
		if f.offset < len(f.node.data) {
			n = copy(p, f.node.data[f.offset:])
		}
		f.offset += n
		return nil
	})
	if err == nil && n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, err
}

func (f *file) Write(p []byte) (int, error) {
	err := f.x.locked(f.path, func() error {
		if f.append {
			f.offset = len(f.node.data)
		}
		f.node.write(p, f.offset)
		f.offset += len(p)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

func (f *file) Close() error { return nil }

// baseRoot returns the files of images that were not built here.
func baseRoot() *node {
	root := newDir(0o755)
	for path := range strings.FieldsSeq("/bin /dev /etc /home /mnt /opt /root /run /srv /tmp /usr/bin /usr/local/bin /var/log") {
		dir := root
		for _, name := range elements(path) {
			if dir.children[name] == nil {
				dir.children[name] = newDir(0o755)
			}
			dir = dir.children[name]
		}
	}
	root.children["etc"].children["passwd"] = newFile(0o644, []byte("root:x:0:0:root:/root:/bin/bash\n"))
	return root
}
