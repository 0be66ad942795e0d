package fake

import (
	"cmp"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// The calls that processes make on files. Paths are absolute and as written: a ".." after a link
// means the folder above the link's target.

func (m *machine) stat(p *process, path string, follow bool) (i info, err error) {
	err = m.call(p, "stat", path, func() error {
		at, err := m.find(p, path, follow)
		if err == nil {
			i = at.node.info(base(path))
		}
		return err
	})
	return i, err
}

func base(path string) string {
	if names := elements(path); len(names) > 0 {
		return names[len(names)-1]
	}
	return "/"
}

func (m *machine) access(p *process, path string, bits fs.FileMode) error {
	return m.call(p, "access", path, func() error {
		at, err := m.find(p, path, true)
		if err == nil {
			err = p.may(at.node, bits)
		}
		return err
	})
}

// readDir lists a folder by name.
func (m *machine) readDir(p *process, path string) (list []info, err error) {
	err = m.call(p, "open", path, func() error {
		at, err := m.find(p, path, true)
		if err != nil {
			return err
		}
		if !at.node.mode.IsDir() {
			return syscall.ENOTDIR
		}
		if err := p.may(at.node, 0o4); err != nil {
			return err
		}
		list = make([]info, 0, len(at.node.children))
		for name, child := range at.node.children {
			list = append(list, child.info(name))
		}
		return nil
	})
	slices.SortFunc(list, func(a, b info) int { return cmp.Compare(a.name, b.name) })
	return list, err
}

func (m *machine) readlink(p *process, path string) (target string, err error) {
	err = m.call(p, "readlink", path, func() error {
		at, err := m.find(p, path, false)
		if err == nil && at.node.mode&fs.ModeSymlink == 0 {
			err = syscall.EINVAL
		}
		if err == nil {
			target = at.node.target
		}
		return err
	})
	return target, err
}

// add makes a new node at path.
func (m *machine) add(p *process, path string, n *node) error {
	return m.call(p, "create", path, func() error {
		at, err := m.walk(p, strings.TrimRight(path, "/"), false)
		if err != nil {
			return err
		}
		return m.insert(p, at, n)
	})
}

func (m *machine) mkdir(p *process, path string, perm fs.FileMode) error {
	return m.add(p, path, newDir(perm))
}

// mkdirAll makes a folder and those above it; the folders are there afterwards, or an error.
func (m *machine) mkdirAll(p *process, path string, perm fs.FileMode) error {
	return m.call(p, "mkdir", path, func() error { return m.makeDirs(p, path, perm) })
}

// makeDirs is mkdirAll under the lock.
func (m *machine) makeDirs(p *process, path string, perm fs.FileMode) error {
	names := elements(path)
	for i := range names {
		at, err := m.walk(p, "/"+strings.Join(names[:i+1], "/"), true)
		switch {
		case err != nil:
			return err
		case at.node == nil:
			if err := m.insert(p, at, newDir(perm)); err != nil {
				return err
			}
		case !at.node.mode.IsDir():
			return syscall.ENOTDIR
		}
	}
	return nil
}

func (m *machine) symlink(p *process, target, path string) error {
	return m.add(p, path, &node{mode: fs.ModeSymlink | 0o777, links: 1, target: target, size: int64(len(target))})
}

// link gives the file at from another name.
func (m *machine) link(p *process, from, to string) error {
	return m.call(p, "link", to, func() error {
		old, err := m.find(p, from, false)
		if err != nil {
			return err
		}
		if old.node.mode.IsDir() {
			return syscall.EPERM
		}
		at, err := m.walk(p, to, false)
		if err != nil {
			return err
		}
		if at.node != nil {
			return syscall.EEXIST
		}
		if err := p.may(at.dir, 0o3); err != nil {
			return err
		}
		old.node.links++
		at.dir.children[at.name] = old.node
		return nil
	})
}

// remove takes away a file or an empty folder.
func (m *machine) remove(p *process, path string) error {
	return m.call(p, "remove", path, func() error {
		at, err := m.find(p, strings.TrimRight(path, "/"), false)
		if err != nil {
			return err
		}
		if len(at.node.children) > 0 {
			return syscall.ENOTEMPTY
		}
		return m.unlink(p, at)
	})
}

func (m *machine) removeAll(p *process, path string) error {
	return m.call(p, "remove", path, func() error {
		at, err := m.find(p, strings.TrimRight(path, "/"), false)
		if err != nil {
			return err
		}
		return m.unlinkTree(p, at)
	})
}

// rename moves a name to another, replacing a file that has it.
func (m *machine) rename(p *process, from, to string) error {
	return m.call(p, "rename", to, func() error {
		old, err := m.find(p, from, false)
		if err != nil {
			return err
		}
		at, err := m.walk(p, strings.TrimRight(to, "/"), false)
		if err != nil {
			return err
		}
		if old.dir == nil || at.dir == nil {
			return syscall.EBUSY
		}
		if old.node == at.node {
			return nil
		}
		if old.node.contains(at.dir) {
			return syscall.EINVAL
		}
		if err := cmp.Or(p.may(old.dir, 0o3), p.may(at.dir, 0o3)); err != nil {
			return err
		}
		if at.node != nil {
			if at.node.mode.IsDir() && (!old.node.mode.IsDir() || len(at.node.children) > 0) {
				return syscall.ENOTEMPTY
			}
			if err := m.unlink(p, at); err != nil {
				return err
			}
		}
		delete(old.dir.children, old.name)
		at.dir.children[at.name] = old.node
		return nil
	})
}

// contains tells whether dir is n or below it.
func (n *node) contains(dir *node) bool {
	if n == dir {
		return true
	}
	for _, child := range n.children {
		if child.mode.IsDir() && child.contains(dir) {
			return true
		}
	}
	return false
}

// change applies do to the node at path, which p must own.
func (m *machine) change(p *process, path string, follow bool, do func(n *node) error) error {
	return m.call(p, "change", path, func() error {
		at, err := m.find(p, path, follow)
		if err != nil {
			return err
		}
		if err := p.owns(at.node); err != nil {
			return err
		}
		return do(at.node)
	})
}

func (m *machine) chmod(p *process, path string, perm func(old fs.FileMode) fs.FileMode) error {
	return m.change(p, path, true, func(n *node) error {
		n.mode = n.mode.Type() | perm(n.mode&^fs.ModeType)&^fs.ModeType
		return nil
	})
}

func (m *machine) chown(p *process, path string, uid, gid int) error {
	return m.change(p, path, false, func(n *node) error {
		if p != nil && p.uid != 0 {
			return syscall.EPERM
		}
		if uid >= 0 {
			n.uid = uid
		}
		if gid >= 0 {
			n.gid = gid
		}
		return nil
	})
}

func (m *machine) touch(p *process, path string) error {
	f, err := m.open(p, path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	return m.call(p, "touch", path, func() error {
		f.node.modified = time.Now()
		return nil
	})
}

// truncate sets the length of a file; what is added is a hole.
func (m *machine) truncate(p *process, path string, size int64) error {
	f, err := m.open(p, path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	return m.call(p, "truncate", path, func() error {
		if !f.node.mode.IsRegular() {
			return syscall.EINVAL
		}
		f.node.truncate(size)
		return m.bill(f.node, min(f.node.billed, size))
	})
}
