package nofollow

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	fileFlags = os.O_RDONLY | syscall.O_NOFOLLOW | syscall.O_NONBLOCK // a pipe without a writer would block
	dirFlags  = os.O_RDONLY | syscall.O_NOFOLLOW | syscall.O_DIRECTORY
)

// Open opens a regular file for reading. Anything else is an error. Links in the directories of
// path are followed.
func Open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, fileFlags, 0)
	if err != nil {
		return nil, err
	}
	return regular(f)
}

// OpenAt opens the regular file name in dir for reading.
func OpenAt(dir *os.File, name string) (*os.File, error) {
	f, err := openAt(dir, name, fileFlags, 0)
	if err != nil {
		return nil, err
	}
	return regular(f)
}

// regular closes f and returns an error unless it is a regular file.
func regular(f *os.File) (*os.File, error) {
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: f.Name(), Err: errors.New("is not a file")}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// CreateAt creates the file name, a path below dir, for writing. It fails if the name exists.
func CreateAt(dir *os.File, name string, perm fs.FileMode) (*os.File, error) {
	return openAt(dir, name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, uint32(perm.Perm()))
}

// OpenAppend opens a regular file for reading and for writing at its end. It creates the file if
// the name does not exist. Links in the directories of path are followed.
func OpenAppend(path string, perm fs.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, perm)
	if errors.Is(err, syscall.ELOOP) {
		return nil, &fs.PathError{Op: "open", Path: path, Err: errors.New("is a link, which is not followed")}
	}
	if err != nil {
		return nil, err
	}
	return regular(f)
}

// OpenDir opens a directory. A link to one is an error; links in the directories of path are
// followed.
func OpenDir(path string) (*os.File, error) { return os.OpenFile(path, dirFlags, 0) }

// OpenDirAt opens the directory name in dir.
func OpenDirAt(dir *os.File, name string) (*os.File, error) { return openAt(dir, name, dirFlags, 0) }

// OpenDirBelow opens the directory that names lead to, one below the other, from the directory
// path. None of them may be a link.
func OpenDirBelow(path string, names ...string) (*os.File, error) {
	dir, err := OpenDir(path)
	for _, name := range names {
		if err != nil {
			return nil, err
		}
		var next *os.File
		next, err = OpenDirAt(dir, name)
		_ = dir.Close() // was only read
		dir = next
	}
	return dir, err
}

func openAt(dir *os.File, name string, flags int, perm uint32) (*os.File, error) {
	full := filepath.Join(dir.Name(), name)
	for {
		fd, err := unix.Openat(int(dir.Fd()), name, flags|unix.O_CLOEXEC, perm)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return nil, &fs.PathError{Op: "open", Path: full, Err: err}
		default:
			return os.NewFile(uintptr(fd), full), nil
		}
	}
}

// EachDir calls do for every directory in dir, opened, and closes it afterwards. Links and hidden
// directories are left out. It stops at the first error and returns it.
func EachDir(dir *os.File, do func(name string, sub *os.File) error) error {
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		sub, err := OpenDirAt(dir, e.Name())
		if err != nil {
			return err
		}
		if err := errors.Join(do(e.Name(), sub), sub.Close()); err != nil {
			return err
		}
	}
	return nil
}

// Exists reports whether name, a path below dir, exists; a link counts.
func Exists(dir *os.File, name string) bool {
	var stat unix.Stat_t
	return unix.Fstatat(int(dir.Fd()), name, &stat, unix.AT_SYMLINK_NOFOLLOW) == nil
}

// Rename moves name from one directory to another. The error is unix.EXDEV between file systems.
func Rename(from *os.File, name string, to *os.File) error {
	if err := unix.Renameat(int(from.Fd()), name, int(to.Fd()), name); err != nil {
		return &fs.PathError{Op: "rename", Path: filepath.Join(to.Name(), name), Err: err}
	}
	return nil
}

// CheckDir returns an error if path exists and is not a directory, for example a link to one.
func CheckDir(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("%s is a link, which no run of rollout leaves", path)
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory", path)
	}
	return nil
}

// CheckDirs is CheckDir for every element of below, a path below dir.
func CheckDirs(dir, below string) error {
	for part := below; part != "."; part = filepath.Dir(part) {
		if err := CheckDir(filepath.Join(dir, part)); err != nil {
			return err
		}
	}
	return nil
}

// ReadFile reads a regular file of at most limit bytes.
func ReadFile(path string, limit int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var data bytes.Buffer // of the right size: the plan of a large job has many megabytes
	data.Grow(int(min(info.Size(), limit)) + bytes.MinRead)
	_, err = data.ReadFrom(io.LimitReader(f, limit+1))
	if err == nil && int64(data.Len()) > limit {
		err = fmt.Errorf("%s: is larger than %d bytes", path, limit)
	}
	return data.Bytes(), err
}
