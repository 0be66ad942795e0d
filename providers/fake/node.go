package fake

import (
	"bytes"
	"io/fs"
	"time"
)

// node is a file, folder, link or device. Names belong to folders, so a node can have several.
type node struct {
	mode     fs.FileMode // type and permission bits
	uid, gid int
	modified time.Time
	links    int

	data   []byte // of a regular file; from len(data) to size there are zeros
	size   int64
	shared bool  // data belongs to other trees as well, and is copied before it changes
	billed int64 // bytes of data that count as the machine's storage

	target   string           // of a symbolic link
	device   [2]int           // major and minor number
	children map[string]*node // of a folder
}

func newDir(perm fs.FileMode) *node {
	return &node{mode: fs.ModeDir | perm, links: 1, children: map[string]*node{}}
}

func newFile(perm fs.FileMode, data string) *node {
	return &node{mode: perm, links: 1, data: []byte(data), size: int64(len(data))}
}

func newDevice(major, minor int) *node {
	return &node{mode: fs.ModeDevice | fs.ModeCharDevice | 0o666, links: 1, device: [2]int{major, minor}}
}

// clone copies a tree. The data of its files is shared by both trees afterwards.
func (n *node) clone() *node { return n.cloneLinked(map[*node]*node{}) }

// cloneLinked keeps hard links together: done has the copies of nodes with several names.
func (n *node) cloneLinked(done map[*node]*node) *node {
	if n.links > 1 {
		if c, ok := done[n]; ok {
			return c
		}
	}
	if !n.shared && n.data != nil {
		n.shared = true
	}
	c := new(node)
	*c = *n
	c.data = n.data[:len(n.data):len(n.data)]
	if n.links > 1 {
		done[n] = c
	}
	if n.children != nil {
		c.children = make(map[string]*node, len(n.children))
		for name, child := range n.children {
			c.children[name] = child.cloneLinked(done)
		}
	}
	return c
}

// freeze makes a tree into an image: its data is shared, so that many can clone it at once, and costs
// no storage.
func (n *node) freeze() *node {
	if n.data != nil {
		n.shared = true
	}
	n.billed = 0
	for _, child := range n.children {
		child.freeze()
	}
	return n
}

// own makes sure that data can be changed.
func (n *node) own() {
	if n.shared {
		n.data, n.shared = bytes.Clone(n.data), false
	}
}

// readAt copies what is at offset into p and returns how much there was.
func (n *node) readAt(p []byte, offset int64) int {
	if offset >= n.size {
		return 0
	}
	p = p[:min(int64(len(p)), n.size-offset)]
	done := 0
	if offset < int64(len(n.data)) {
		done = copy(p, n.data[offset:])
	}
	clear(p[done:])
	return len(p)
}

// writeAt overwrites and extends.
func (n *node) writeAt(p []byte, offset int64) {
	n.own()
	if gap := offset - int64(len(n.data)); gap > 0 {
		n.data = append(n.data, make([]byte, gap)...)
	}
	kept := copy(n.data[offset:], p)
	n.data = append(n.data, p[kept:]...)
	n.size = max(n.size, int64(len(n.data)))
	n.modified = time.Now()
}

func (n *node) truncate(size int64) {
	if size < int64(len(n.data)) {
		n.data = n.data[:size:size]
	}
	n.size = size
	n.modified = time.Now()
}

// info is what is known about a node; an fs.FileInfo.
type info struct {
	name     string
	mode     fs.FileMode
	size     int64
	modified time.Time
	uid, gid int
	links    int
	target   string
	device   [2]int
}

func (n *node) info(name string) info {
	i := info{name, n.mode, n.size, n.modified, n.uid, n.gid, n.links, n.target, n.device}
	if n.mode.IsDir() {
		i.size, i.links = 4096, len(n.children)+2
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
