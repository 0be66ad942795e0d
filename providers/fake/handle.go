package fake

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// file is an open file of a process.
type file struct {
	m      *machine
	p      *process
	node   *node
	path   string
	offset int64
	flag   int
}

// open opens or, with os.O_CREATE, makes a file.
func (m *machine) open(p *process, path string, flag int, perm fs.FileMode) (f *file, err error) {
	err = m.call(p, "open", path, func() error {
		at, err := m.walk(p, path, true)
		if err != nil {
			return err
		}
		if at.node == nil {
			if flag&os.O_CREATE == 0 {
				return syscall.ENOENT
			}
			at.node = newFile(perm, "")
			if err := m.insert(p, place{dir: at.dir, name: at.name}, at.node); err != nil {
				return err
			}
		} else if err := p.mayOpen(at.node, flag); err != nil {
			return err
		}
		if flag&os.O_TRUNC != 0 && at.node.mode.IsRegular() {
			at.node.data, at.node.shared = nil, false
			at.node.truncate(0)
			if err := m.bill(at.node, 0); err != nil {
				return err
			}
		}
		f = &file{m: m, p: p, node: at.node, path: path, flag: flag}
		return nil
	})
	return f, err
}

const accessMode = os.O_RDONLY | os.O_WRONLY | os.O_RDWR

func (p *process) mayOpen(n *node, flag int) error {
	writes := flag&accessMode != os.O_RDONLY
	switch {
	case n.mode.IsDir() && writes:
		return syscall.EISDIR
	case n.mode&(fs.ModeNamedPipe|fs.ModeSocket) != 0:
		return errNoPipes
	case n.mode&fs.ModeDevice != 0 && devices[n.device] == nil:
		return syscall.ENXIO
	}
	bits := fs.FileMode(0o4)
	switch flag & accessMode {
	case os.O_WRONLY:
		bits = 0o2
	case os.O_RDWR:
		bits = 0o6
	}
	return p.may(n, bits)
}

// devices are what can be read from the character devices there are. All swallow what is written.
var devices = map[[2]int]func(p []byte) (int, error){
	{1, 3}: func([]byte) (int, error) { return 0, io.EOF },
	{1, 5}: func(p []byte) (int, error) { clear(p); return len(p), nil },
	{1, 8}: rand.Read,
	{1, 9}: rand.Read,
}

func (f *file) Read(p []byte) (n int, err error) {
	err = f.m.call(f.p, "read", f.path, func() error {
		switch {
		case f.node.mode.IsDir():
			return syscall.EISDIR
		case f.node.mode&fs.ModeDevice != 0:
			var end error
			n, end = devices[f.node.device](p)
			if errors.Is(end, io.EOF) {
				n = 0
			}
			return nil
		}
		n = f.node.readAt(p, f.offset)
		f.offset += int64(n)
		return nil
	})
	if err == nil && n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, err
}

func (f *file) Write(p []byte) (int, error) {
	err := f.m.call(f.p, "write", f.path, func() error {
		if f.node.mode&fs.ModeDevice != 0 {
			return nil
		}
		if f.flag&os.O_APPEND != 0 {
			f.offset = f.node.size
		}
		if err := f.m.bill(f.node, max(f.offset+int64(len(p)), int64(len(f.node.data)))); err != nil {
			return err
		}
		f.node.writeAt(p, f.offset)
		f.offset += int64(len(p))
		return nil
	})
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

func (f *file) Close() error { return nil }

// readFile is the content of a file.
func (m *machine) readFile(p *process, path string) ([]byte, error) {
	f, err := m.open(p, path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(f)
}

// writeFile makes or replaces a file.
func (m *machine) writeFile(p *process, path string, data []byte, perm fs.FileMode) error {
	f, err := m.open(p, path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
	if err == nil {
		_, err = f.Write(data)
	}
	return err
}
