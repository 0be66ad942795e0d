//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// copyTree copies the content of the directory from to the empty directory to: with owners, modes,
// times, extended attributes, holes, hard links, devices and sockets. Where the file system can,
// files share their data. It follows no links. It returns the size of the files in bytes. from must
// not change meanwhile.
func copyTree(from, to string) (size int64, err error) {
	src, err := os.Open(from)
	if err != nil {
		return 0, err
	}
	defer src.Close()
	dst, err := os.Open(to)
	if err != nil {
		return 0, err
	}
	defer dst.Close()
	c := treeCopy{first: map[inodeID]string{}, root: dst}
	err = c.dir(src, dst, "")
	return c.size, err
}

// inodeID identifies a file on this machine.
type inodeID struct{ dev, ino uint64 }

// treeCopy is the state of a copyTree call.
type treeCopy struct {
	root  *os.File
	first map[inodeID]string // files with several names: the name of the copy, below root
	size  int64
}

// dir copies the content of src to dst, which is at path below the root.
func (c *treeCopy) dir(src, dst *os.File, path string) error {
	const batch = 1000
	for {
		names, err := src.Readdirnames(batch)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		for _, name := range names {
			if err := c.entry(src, dst, name, path+"/"+name); err != nil {
				return err
			}
		}
	}
}

// entry copies one entry of src to dst.
func (c *treeCopy) entry(src, dst *os.File, name, path string) error {
	var stat unix.Stat_t
	if err := unix.Fstatat(int(src.Fd()), name, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("copy %s: %w", path, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR && stat.Nlink > 1 {
		id := inodeID{stat.Dev, stat.Ino}
		if first, seen := c.first[id]; seen {
			return named("copy", path, unix.Linkat(int(c.root.Fd()), first, int(dst.Fd()), name, 0))
		}
		c.first[id] = strings.TrimPrefix(path, "/")
	}
	var err error
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		err = c.subdir(src, dst, name, path)
	case unix.S_IFREG:
		err = named("copy", path, copyFile(src, dst, name, stat.Size))
	case unix.S_IFLNK:
		err = named("copy", path, copyLink(src, dst, name, stat.Size))
	default: // a device, a pipe, a socket, or a mark of overlayfs
		err = named("copy", path, unix.Mknodat(int(dst.Fd()), name, stat.Mode, int(stat.Rdev)))
	}
	if err != nil {
		return err
	}
	c.size += stat.Blocks * 512
	return named("copy the attributes of", path, copyAttributes(src, dst, name, &stat))
}

// named adds the operation and the file to an error.
func named(doing, path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", doing, path, err)
}

func (c *treeCopy) subdir(src, dst *os.File, name, path string) error {
	if err := unix.Mkdirat(int(dst.Fd()), name, 0o700); err != nil {
		return named("make", path, err)
	}
	const flags = unix.O_RDONLY | unix.O_DIRECTORY
	from, err := openIn(src, name, flags)
	if err != nil {
		return named("open", path, err)
	}
	defer from.Close()
	to, err := openIn(dst, name, flags)
	if err != nil {
		return named("open", path, err)
	}
	defer to.Close()
	return c.dir(from, to, path)
}

// openIn opens a file of a directory without following links.
func openIn(dir *os.File, name string, flags int) (*os.File, error) {
	fd, err := unix.Openat(int(dir.Fd()), name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

func copyFile(src, dst *os.File, name string, size int64) error {
	from, err := openIn(src, name, unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := openIn(dst, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return err
	}
	return errors.Join(copyData(from, to, size), to.Close())
}

// copyData copies or shares a file's data and keeps its holes.
func copyData(from, to *os.File, size int64) error {
	if unix.IoctlFileClone(int(to.Fd()), int(from.Fd())) == nil {
		return nil
	}
	if err := to.Truncate(size); err != nil {
		return err
	}
	for at := int64(0); at < size; {
		data, err := from.Seek(at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil // the rest is a hole
		}
		if err != nil {
			data = at // this file system has no holes
		}
		hole, err := from.Seek(data, unix.SEEK_HOLE)
		if err != nil || hole > size {
			hole = size
		}
		for _, f := range []*os.File{from, to} {
			if _, err := f.Seek(data, io.SeekStart); err != nil {
				return err
			}
		}
		if _, err := io.CopyN(to, from, hole-data); err != nil {
			return err
		}
		at = hole
	}
	return nil
}

func copyLink(src, dst *os.File, name string, size int64) error {
	target := make([]byte, size+1)
	n, err := unix.Readlinkat(int(src.Fd()), name, target)
	if err != nil {
		return err
	}
	return unix.Symlinkat(string(target[:n]), int(dst.Fd()), name)
}

// copyAttributes sets owner, extended attributes, mode and times of a copy, in this order: a change
// of owner clears capabilities and set-user-id bits.
func copyAttributes(src, dst *os.File, name string, stat *unix.Stat_t) error {
	to := int(dst.Fd())
	if err := unix.Fchownat(to, name, int(stat.Uid), int(stat.Gid), unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if err := copyXattrs(pathIn(src, name), pathIn(dst, name)); err != nil {
		return err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFLNK {
		if err := unix.Fchmodat(to, name, stat.Mode&0o7777, 0); err != nil {
			return err
		}
	}
	return unix.UtimesNanoAt(to, name, []unix.Timespec{stat.Atim, stat.Mtim}, unix.AT_SYMLINK_NOFOLLOW)
}

// pathIn returns a path of a file in an open directory, for system calls without a directory
// argument.
func pathIn(dir *os.File, name string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), name)
}

// copyXattrs copies extended attributes, except those that the machine itself sets on each file.
func copyXattrs(from, to string) error {
	list, err := readXattr(func(buf []byte) (int, error) { return unix.Llistxattr(from, buf) })
	if errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	if err != nil {
		return err
	}
	for key := range strings.SplitSeq(string(list), "\x00") {
		if key == "" || key == "security.selinux" {
			continue
		}
		value, err := readXattr(func(buf []byte) (int, error) { return unix.Lgetxattr(from, key, buf) })
		if err == nil {
			err = unix.Lsetxattr(to, key, value, 0)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

// readXattr calls read with a buffer of sufficient size.
func readXattr(read func([]byte) (int, error)) ([]byte, error) {
	for {
		size, err := read(nil)
		if err != nil || size == 0 {
			return nil, err
		}
		buf := make([]byte, size)
		size, err = read(buf)
		if !errors.Is(err, syscall.ERANGE) {
			return buf[:max(size, 0)], err
		}
	}
}
