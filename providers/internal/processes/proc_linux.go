package processes

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// proc reads /proc. It is used for many looks at once, as the processes to kill may start others
// meanwhile: its buffers are used again, and nothing is opened twice.
type proc struct {
	dir   int
	entry [oneProcess]byte
	other [512]byte     // room for an entry with any name
	line  [1 << 10]byte // longer than any stat, which has numbers and a name of 15 bytes
	names []string
	list  []stat
}

func openProc() (*proc, error) {
	dir, err := unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open /proc: %w", err)
	}
	return &proc{dir: dir}, nil
}

// oneProcess is the size in bytes of a directory entry whose name is the id of a process: there is
// no room for two.
// Source: getdents(2), struct linux_dirent64.
const oneProcess = 32

func (p *proc) close() { _ = unix.Close(p.dir) }

// scan lists the processes there are. The list is good until the next scan.
//
// It reads about each process before it asks for the next one. If it asked for many at once, one of
// them could start another and end before it is read about, and the new one would be in no list:
// its id is higher than those that were asked for, but others' ids are higher still.
func (p *proc) scan() ([]stat, error) {
	if _, err := unix.Seek(p.dir, 0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read /proc: %w", err)
	}
	p.list = p.list[:0]
	for {
		buffer := p.entry[:]
		n, err := retry(func() (int, error) { return unix.Getdents(p.dir, buffer) })
		if errors.Is(err, unix.EINVAL) { // it is no process, and has a longer name
			buffer = p.other[:]
			n, err = retry(func() (int, error) { return unix.Getdents(p.dir, buffer) })
		}
		if err != nil {
			return nil, fmt.Errorf("read /proc: %w", err)
		}
		if n == 0 {
			return p.list, nil
		}
		_, _, p.names = unix.ParseDirent(buffer[:n], -1, p.names[:0])
		if err := p.add(); err != nil {
			return nil, err
		}
	}
}

// add appends the processes among the names to the list.
func (p *proc) add() error {
	for _, name := range p.names {
		if name[0] < '0' || name[0] > '9' {
			continue
		}
		s, err := p.stat(name)
		if gone(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read /proc/%s/stat: %w", name, err)
		}
		p.list = append(p.list, s)
	}
	return nil
}

// stat reads about the process with the id.
func (p *proc) stat(pid string) (stat, error) {
	fd, err := retry(func() (int, error) { return unix.Openat(p.dir, pid+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return stat{}, err
	}
	defer unix.Close(fd)
	n, err := retry(func() (int, error) { return unix.Read(fd, p.line[:]) })
	if err != nil {
		return stat{}, err
	}
	return parseStat(p.line[:n])
}

// namespace identifies the pid namespace of the process with the id.
func (p *proc) namespace(pid string) (string, error) {
	var name [64]byte
	n, err := retry(func() (int, error) { return unix.Readlinkat(p.dir, pid+"/ns/pid", name[:]) })
	if err != nil {
		return "", fmt.Errorf("read the pid namespace of process %s: %w", pid, err)
	}
	return string(name[:n]), nil
}

// isFirst reports whether the process is the first of its namespace. Source: proc_pid_status(5),
// NSpid.
func (p *proc) isFirst(pid string) (bool, error) {
	fd, err := retry(func() (int, error) { return unix.Openat(p.dir, pid+"/status", unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return false, fmt.Errorf("read the status of process %s: %w", pid, err)
	}
	defer unix.Close(fd)
	var text [8 << 10]byte // more than there is before and in that line
	n, err := retry(func() (int, error) { return unix.Read(fd, text[:]) })
	if err != nil {
		return false, fmt.Errorf("read the status of process %s: %w", pid, err)
	}
	for line := range bytes.Lines(text[:n]) {
		// The name of a program is in the first line, with its line breaks escaped.
		if ids, ok := bytes.CutPrefix(line, []byte("NSpid:")); ok {
			all := bytes.Fields(ids)
			return len(all) > 1 && string(all[len(all)-1]) == "1", nil
		}
	}
	return false, nil
}

// retry repeats a call that a signal interrupted.
func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}
