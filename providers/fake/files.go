package fake

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// node is a file, directory, link, pipe or device. Directories have the names, so a node can have several.
type node struct {
	mode     fs.FileMode
	uid, gid int
	modified time.Time
	links    int
	data     []byte                    // of a regular file; from len(data) to size there are zeros
	size     int64                     // of a regular file
	shared   bool                      // other trees have this data, too: it is copied before it changes
	target   string                    // of a symbolic link
	device   func([]byte) (int, error) // reads from a device
	children map[string]*node          // of a directory
}

func newNode(mode fs.FileMode, data string) *node {
	n := &node{mode: mode, links: 1, data: []byte(data), size: int64(len(data)), modified: time.Now()}
	if mode.IsDir() {
		n.children = map[string]*node{}
	}
	return n
}

// clone copies a tree, whose nodes share their data with the copy. Hard links stay together: done has the copies of nodes
// with several names.
func (n *node) clone(done map[*node]*node) *node {
	if c, ok := done[n]; ok {
		return c
	}
	if !n.shared && n.data != nil { // many may clone an image at once
		n.shared = true
	}
	c := new(node)
	*c = *n
	if n.links > 1 {
		done[n] = c
	}
	c.children = maps.Clone(n.children)
	for name, child := range n.children {
		c.children[name] = child.clone(done)
	}
	return c
}

// ReadAt implements io.ReaderAt.
func (n *node) ReadAt(p []byte, offset int64) (int, error) {
	if offset >= n.size {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), n.size-offset)]
	done := 0
	if offset < int64(len(n.data)) {
		done = copy(p, n.data[offset:])
	}
	clear(p[done:])
	return len(p), nil
}

// write overwrites and extends.
func (n *node) write(p []byte, offset int64) {
	if n.shared {
		n.data, n.shared = bytes.Clone(n.data), false
	}
	if gap := offset - int64(len(n.data)); gap > 0 {
		n.data = append(n.data, make([]byte, gap)...)
	}
	kept := copy(n.data[offset:], p)
	n.data = append(n.data, p[kept:]...)
	n.size, n.modified = max(n.size, int64(len(n.data))), time.Now()
}

// truncate sets the length of a file; what is added is a hole.
func (n *node) truncate(size int64) {
	if size < int64(len(n.data)) {
		n.data = n.data[:size:size]
	}
	n.size, n.modified = size, time.Now()
}

// info is an fs.FileInfo and fs.DirEntry: a node as it was, and its name.
type info struct {
	node
	name string
}

func (n *node) info(name string) info {
	i := info{*n, name}
	if n.mode.IsDir() {
		i.size = 4096
	}
	return i
}

func (i info) Name() string               { return i.name }
func (i info) Size() int64                { return i.size }
func (i info) Mode() fs.FileMode          { return i.mode }
func (i info) ModTime() time.Time         { return i.modified }
func (i info) IsDir() bool                { return i.mode.IsDir() }
func (i info) Sys() any                   { return nil }
func (i info) Type() fs.FileMode          { return i.mode.Type() }
func (i info) Info() (fs.FileInfo, error) { return i, nil }

// place is where a path leads: the node, or nil, and the directory and name that it has or would have.
type place struct {
	dir  *node
	name string
	node *node
	path string // without links; "" is the root
}

// walk resolves an absolute path as p would. It follows a link at the end if follow is set or the path ends in a slash. A ".."
// after a link is the directory above the link's target.
func (m *machine) walk(p *process, path string, follow bool) (place, error) {
	follow = follow || strings.HasSuffix(path, "/")
	rest := elements(path)
	at := []place{{node: m.root, name: "/"}} // the way from the root
	for links := 0; len(rest) > 0; rest = rest[1:] {
		name, top := rest[0], at[len(at)-1].node
		if top == nil {
			return place{}, syscall.ENOENT
		}
		if !top.mode.IsDir() {
			return place{}, syscall.ENOTDIR
		}
		if err := p.may(top, 0o1); err != nil {
			return place{}, err
		}
		if len(name) > 255 {
			return place{}, syscall.ENAMETOOLONG
		}
		if name == ".." {
			at = at[:max(1, len(at)-1)]
			continue
		}
		child := top.children[name]
		if child == nil || child.mode&fs.ModeSymlink == 0 || !follow && len(rest) == 1 {
			at = append(at, place{top, name, child, at[len(at)-1].path + "/" + name})
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

// elements returns the names of a path that mean something.
func elements(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(e string) bool { return e == "" || e == "." })
}

func base(path string) string {
	names := elements(path)
	return slices.Concat([]string{"/"}, names)[len(names)]
}

// may returns an error if p lacks these permissions (of rwx) on n. The provider, a nil p, and root have all that there are.
func (p *process) may(n *node, bits fs.FileMode) error {
	if p == nil || p.uid == 0 && (bits != 0o1 || n.mode&0o111 != 0 || n.mode.IsDir()) {
		return nil
	}
	have := n.mode
	switch {
	case n.uid == p.uid:
		have >>= 6
	case n.gid == p.gid:
		have >>= 3
	}
	if have&bits != bits {
		return syscall.EACCES
	}
	return nil
}

// locked calls do for p under the machine's lock, unless p has ended. Errors become *fs.PathError.
func (m *machine) locked(p *process, path string, do func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := errKilled
	if p == nil || !p.ended {
		err = do()
	}
	if err != nil {
		return &fs.PathError{Op: "use", Path: path, Err: err}
	}
	return nil
}

// at calls do with the place of a path.
func (m *machine) at(p *process, path string, follow bool, do func(place) error) error {
	return m.locked(p, path, func() error {
		at, err := m.walk(p, path, follow)
		if err != nil {
			return err
		}
		return do(at)
	})
}

// find is at for what must be there.
func (m *machine) find(p *process, path string, follow bool, do func(place) error) error {
	return m.at(p, path, follow, func(at place) error {
		if at.node == nil {
			return syscall.ENOENT
		}
		return do(at)
	})
}

// insert puts n, which becomes p's, at a free place.
func (p *process) insert(at place, n *node) error {
	if at.node != nil {
		return syscall.EEXIST
	}
	if err := p.may(at.dir, 0o3); err != nil {
		return err
	}
	if p != nil {
		n.uid, n.gid = p.uid, p.gid
	}
	at.dir.children[at.name], at.dir.modified = n, time.Now()
	return nil
}

// unlink removes a name and, if all is set, everything below it.
func (m *machine) unlink(p *process, at place, all bool) error {
	for name, child := range at.node.children {
		if !all {
			return syscall.ENOTEMPTY
		}
		if err := m.unlink(p, place{dir: at.node, name: name, node: child}, true); err != nil {
			return err
		}
	}
	if at.dir == nil {
		return syscall.EBUSY
	}
	if err := p.may(at.dir, 0o3); err != nil {
		return err
	}
	delete(at.dir.children, at.name)
	at.dir.modified = time.Now()
	if at.node.links--; at.node.links == 0 {
		m.used -= int64(len(at.node.data))
	}
	return nil
}

func (m *machine) stat(p *process, path string, follow bool) (i info, err error) {
	return i, m.find(p, path, follow, func(at place) error { i = at.node.info(base(path)); return nil })
}

func (m *machine) access(p *process, path string, bits fs.FileMode) error {
	return m.find(p, path, true, func(at place) error { return p.may(at.node, bits) })
}

// readDir lists a directory by name.
func (m *machine) readDir(p *process, path string) (list []fs.DirEntry, err error) {
	err = m.find(p, path, true, func(at place) error {
		if !at.node.mode.IsDir() {
			return syscall.ENOTDIR
		}
		for name, child := range at.node.children {
			list = append(list, child.info(name))
		}
		return p.may(at.node, 0o4)
	})
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return list, err
}

// add adds a new node.
func (m *machine) add(p *process, path string, n *node) error {
	return m.at(p, strings.TrimRight(path, "/"), false, func(at place) error {
		if at.dir == nil {
			return syscall.EEXIST
		}
		return p.insert(at, n)
	})
}

// mkdirAll makes a directory and those above it, if they are not there.
func (m *machine) mkdirAll(p *process, path string) error {
	names := elements(path)
	for i := range names {
		err := m.at(p, "/"+strings.Join(names[:i+1], "/"), true, func(at place) error {
			switch {
			case at.node == nil:
				return p.insert(at, newNode(fs.ModeDir|0o755, ""))
			case !at.node.mode.IsDir():
				return syscall.ENOTDIR
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *machine) remove(p *process, path string, all bool) error {
	return m.find(p, strings.TrimRight(path, "/"), false, func(at place) error { return m.unlink(p, at, all) })
}

// link gives what is at from another name, in the place of what has it. If move is set, it loses its old name.
func (m *machine) link(p *process, from, to string, move bool) error {
	return m.find(p, from, false, func(old place) error {
		at, err := m.walk(p, strings.TrimRight(to, "/"), false)
		if err != nil || at.node == old.node {
			return err
		}
		switch {
		case !move && old.node.mode.IsDir():
			return syscall.EPERM
		case old.node.contains(at.dir):
			return syscall.EINVAL
		}
		if at.node != nil {
			if !move {
				return syscall.EEXIST
			}
			if err := m.unlink(p, at, false); err != nil {
				return err
			}
		}
		if err := cmp.Or(p.may(old.dir, 0o3), p.may(at.dir, 0o3)); err != nil {
			return err
		}
		old.node.links++
		at.dir.children[at.name] = old.node
		if move {
			old.node.links--
			delete(old.dir.children, old.name)
		}
		return nil
	})
}

// contains reports whether dir is n or below it.
func (n *node) contains(dir *node) bool {
	for _, child := range n.children {
		if child.contains(dir) {
			return true
		}
	}
	return n == dir
}

// change calls do with a node that p must own.
func (m *machine) change(p *process, path string, do func(n *node)) error {
	return m.find(p, path, true, func(at place) error {
		if p.uid != 0 && p.uid != at.node.uid {
			return syscall.EPERM
		}
		do(at.node)
		return nil
	})
}

// file is an open file of a process.
type file struct {
	m      *machine
	p      *process
	node   *node
	path   string
	offset int64
	append bool
}

const accessMode = os.O_RDONLY | os.O_WRONLY | os.O_RDWR

// open opens or, with os.O_CREATE, makes a file.
func (m *machine) open(p *process, path string, flag int, perm fs.FileMode) (f *file, err error) {
	return f, m.at(p, path, true, func(at place) error {
		writes := flag&accessMode != os.O_RDONLY
		switch {
		case at.node == nil && flag&os.O_CREATE == 0:
			return syscall.ENOENT
		case at.node == nil:
			at.node = newNode(perm, "")
			if err := p.insert(place{dir: at.dir, name: at.name}, at.node); err != nil {
				return err
			}
		case at.node.mode.IsDir() && writes:
			return syscall.EISDIR
		case !at.node.mode.IsDir() && !at.node.mode.IsRegular() && at.node.device == nil:
			return syscall.ENXIO
		default:
			if err := p.may(at.node, map[bool]fs.FileMode{false: 0o4, true: 0o2}[writes]); err != nil {
				return err
			}
		}
		if flag&os.O_TRUNC != 0 {
			m.used -= int64(len(at.node.data))
			at.node.data, at.node.shared = nil, false
			at.node.truncate(0)
		}
		f = &file{m: m, p: p, node: at.node, path: path, append: flag&os.O_APPEND != 0}
		return nil
	})
}

func (f *file) Read(p []byte) (n int, err error) {
	err = f.m.locked(f.p, f.path, func() error {
		switch {
		case f.node.mode.IsDir():
			return syscall.EISDIR
		case f.node.device != nil:
			n, _ = f.node.device(p) // 0 is the end
			return nil
		}
		n, _ = f.node.ReadAt(p, f.offset)
		f.offset += int64(n)
		return nil
	})
	if err == nil && n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, err
}

func (f *file) Write(p []byte) (int, error) {
	err := f.m.locked(f.p, f.path, func() error {
		if f.node.device != nil {
			return nil
		}
		if f.append {
			f.offset = f.node.size
		}
		grows := max(0, f.offset+int64(len(p))-int64(len(f.node.data)))
		if f.m.storage > 0 && f.m.used+grows > f.m.storage {
			return syscall.ENOSPC
		}
		f.m.used += grows
		f.node.write(p, f.offset)
		f.offset += int64(len(p))
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
	m := &machine{root: newNode(fs.ModeDir|0o755, "")}
	for path := range strings.FieldsSeq("/bin /dev /etc /home /mnt /opt /proc /root /run /srv /tmp /usr/bin /usr/local/bin /var/log /var/tmp") {
		_ = m.mkdirAll(nil, path) // of a tree that is empty
	}
	for path, n := range map[string]*node{
		"/dev/null":    {mode: fs.ModeDevice | fs.ModeCharDevice | 0o666, links: 1, device: func([]byte) (int, error) { return 0, io.EOF }},
		"/dev/zero":    {mode: fs.ModeDevice | fs.ModeCharDevice | 0o666, links: 1, device: func(p []byte) (int, error) { clear(p); return len(p), nil }},
		"/dev/urandom": {mode: fs.ModeDevice | fs.ModeCharDevice | 0o666, links: 1, device: rand.Read},
		"/etc/hosts":   newNode(0o644, "127.0.0.1 localhost\n"),
		"/etc/passwd":  newNode(0o644, "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"),
		"/etc/group":   newNode(0o644, "root:x:0:\nnogroup:x:65534:\n"),
		"/bin/bash":    newNode(0o755, program),
		"/bin/sh":      newNode(0o755, program),
	} {
		_ = m.add(nil, path, n) // likewise
	}
	for path, mode := range map[string]fs.FileMode{"/tmp": 0o777, "/var/tmp": 0o777, "/root": 0o700} {
		_ = m.find(nil, path, false, func(at place) error { at.node.mode = fs.ModeDir | mode; return nil })
	}
	return m.root
}

// readFile returns the content of a file.
func (m *machine) readFile(p *process, path string) ([]byte, error) {
	f, err := m.open(p, path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(f)
}

// accounts returns the fields of the lines in /etc/passwd or /etc/group.
func (m *machine) accounts(file string) (all [][]string) {
	data, _ := m.readFile(nil, file)
	for line := range strings.Lines(string(data)) {
		if fields := strings.Split(strings.TrimSpace(line), ":"); len(fields) > 2 {
			all = append(all, fields)
		}
	}
	return all
}

// user returns the meaning of "name", "uid", "name:group" and "uid:gid". Unknown numbers have group 0 and home /.
func (m *machine) user(spec string) (uid, gid int, home string, err error) {
	name, group, _ := strings.Cut(cmp.Or(spec, "0"), ":")
	uid, err = strconv.Atoi(name)
	home = "/"
	for _, a := range m.accounts("/etc/passwd") {
		if a[0] != name && a[2] != name || len(a) < 6 {
			continue
		}
		uid, err = strconv.Atoi(a[2])
		gid, _ = strconv.Atoi(a[3])
		home = a[5]
	}
	if group != "" && err == nil {
		gid, err = strconv.Atoi(group)
	}
	if err != nil {
		err = fmt.Errorf("there is no user %s", spec)
	}
	return uid, gid, home, err
}
