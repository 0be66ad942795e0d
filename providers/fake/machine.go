package fake

import (
	"io/fs"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// machine is the inside of one environment: its files and processes. One lock guards both, so that
// nothing of a process happens any more once it has been killed.
type machine struct {
	mu       sync.Mutex
	root     *node
	used     int64 // bytes of data beyond the image
	storage  int64 // how much of them there may be
	procs    map[int]*process
	lastPid  int
	live     int
	maxProcs int
	off      bool // no process may start any more
	network  *network
	handed   chan struct{} // closed when the ENTRYPOINT has run its arguments
}

func newMachine(root *node, w *World) *machine {
	return &machine{root: root, network: newNetwork(w), handed: make(chan struct{}), procs: map[int]*process{}, storage: defaultStorage, maxProcs: defaultPids}
}

// call runs do on behalf of p under the lock, unless p is dead. Errors become *fs.PathError, as
// the interpreter wants them. A nil p is the provider itself, which may do anything.
func (m *machine) call(p *process, op, path string, do func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p != nil && p.ended {
		return &fs.PathError{Op: op, Path: path, Err: errKilled}
	}
	if err := do(); err != nil {
		return &fs.PathError{Op: op, Path: path, Err: err}
	}
	return nil
}

// place is where a path leads: the node, if there is one, and the folder and name that it has or
// would have. The root has no folder.
type place struct {
	dir  *node
	name string
	node *node
}

// walk resolves an absolute path as p would. A link at its end is followed if follow is set, or if the
// path ends in a slash.
func (m *machine) walk(p *process, path string, follow bool) (place, error) {
	follow = follow || strings.HasSuffix(path, "/")
	rest := elements(path)
	stack := []*node{m.root}
	names := []string{"/"}
	for budget := 40; len(rest) > 0; rest = rest[1:] {
		name, top := rest[0], stack[len(stack)-1]
		if err := p.mayEnter(top); err != nil {
			return place{}, err
		}
		if name == ".." {
			stack, names = stack[:max(1, len(stack)-1)], names[:max(1, len(names)-1)]
			continue
		}
		if len(name) > 255 {
			return place{}, syscall.ENAMETOOLONG
		}
		child, last := top.children[name], len(rest) == 1
		switch {
		case child == nil && last:
			return place{dir: top, name: name}, nil
		case child == nil:
			return place{}, syscall.ENOENT
		case child.mode&fs.ModeSymlink != 0 && (follow || !last):
			if budget--; budget < 0 {
				return place{}, syscall.ELOOP
			}
			if strings.HasPrefix(child.target, "/") {
				stack, names = stack[:1], names[:1]
			}
			// The first element is skipped by the loop.
			rest = slices.Concat([]string{""}, elements(child.target), rest[1:])
		case last:
			return place{dir: top, name: name, node: child}, nil
		default:
			stack, names = append(stack, child), append(names, name)
		}
	}
	at := place{name: names[len(names)-1], node: stack[len(stack)-1]}
	if len(stack) > 1 {
		at.dir = stack[len(stack)-2]
	}
	return at, nil
}

// elements are the names of a path that mean something.
func elements(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(e string) bool { return e == "" || e == "." })
}

// find is walk to a node that must be there.
func (m *machine) find(p *process, path string, follow bool) (place, error) {
	at, err := m.walk(p, path, follow)
	if err == nil && at.node == nil {
		err = syscall.ENOENT
	}
	return at, err
}

// mayEnter tells whether p may look for a name in n.
func (p *process) mayEnter(n *node) error {
	if !n.mode.IsDir() {
		return syscall.ENOTDIR
	}
	return p.may(n, 0o1)
}

// may tells whether p has these permissions (of rwx) on n.
func (p *process) may(n *node, bits fs.FileMode) error {
	if p == nil || p.uid == 0 {
		if bits&0o1 != 0 && n.mode.IsRegular() && n.mode&0o111 == 0 {
			return syscall.EACCES
		}
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

// owns tells whether p may change the mode of n.
func (p *process) owns(n *node) error {
	if p != nil && p.uid != 0 && p.uid != n.uid {
		return syscall.EPERM
	}
	return nil
}

// insert puts n, which is new and becomes p's, at a place that is free.
func (m *machine) insert(p *process, at place, n *node) error {
	if at.node != nil {
		return syscall.EEXIST
	}
	if err := p.may(at.dir, 0o3); err != nil {
		return err
	}
	if p != nil {
		n.uid, n.gid = p.uid, p.gid
	}
	n.modified = time.Now()
	at.dir.children[at.name] = n
	at.dir.modified = n.modified
	return nil
}

// unlink takes away one name.
func (m *machine) unlink(p *process, at place) error {
	if at.dir == nil {
		return syscall.EBUSY
	}
	if err := p.may(at.dir, 0o3); err != nil {
		return err
	}
	delete(at.dir.children, at.name)
	at.dir.modified = time.Now()
	if at.node.links--; at.node.links == 0 {
		return m.bill(at.node, 0)
	}
	return nil
}

// unlinkTree takes away a name and everything below it.
func (m *machine) unlinkTree(p *process, at place) error {
	if at.node.mode.IsDir() {
		for name, child := range at.node.children {
			if err := p.may(at.node, 0o7); err != nil {
				return err
			}
			if err := m.unlinkTree(p, place{at.node, name, child}); err != nil {
				return err
			}
		}
	}
	return m.unlink(p, at)
}

// bill accounts for the data that n is going to have.
func (m *machine) bill(n *node, bytes int64) error {
	more := bytes - n.billed
	if more > 0 && m.used+more > m.storage {
		return syscall.ENOSPC
	}
	m.used += more
	n.billed = bytes
	return nil
}
