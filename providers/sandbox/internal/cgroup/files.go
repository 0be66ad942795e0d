package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// files is what the kernel lets one do with groups: folders that come with files. The tests have one
// that behaves as version 2 does, which cannot be mounted everywhere.
type files interface {
	mkdir(dir string) error
	rmdir(dir string) error
	read(file string) (string, error)
	write(file, value string) error
	// list is the names of the groups in dir.
	list(dir string) ([]string, error)
}

type kernelFiles struct{}

func (kernelFiles) mkdir(dir string) error { return os.Mkdir(dir, 0o755) }

// rmdir is not os.Remove, which would try to unlink first and may report that.
func (kernelFiles) rmdir(dir string) error {
	if err := syscall.Rmdir(dir); err != nil {
		return &fs.PathError{Op: "rmdir", Path: dir, Err: err}
	}
	return nil
}

func (kernelFiles) read(file string) (string, error) {
	data, err := os.ReadFile(file)
	return string(data), err
}

// write does not create the file: a file that is not there means a limit that cannot be had.
func (kernelFiles) write(file, value string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

func (kernelFiles) list(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// gone reports whether a group, or the file of it, is not there. ENODEV is what a file says whose group
// was removed while it was open.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV)
}

// busy reports whether a group could not be removed because something is in it.
func busy(err error) bool {
	return errors.Is(err, syscall.EBUSY) || errors.Is(err, syscall.ENOTEMPTY)
}

// words reads a file of names or numbers; none if it cannot be read.
func words(f files, file string) []string {
	text, err := f.read(file)
	if err != nil {
		return nil
	}
	return strings.Fields(text)
}
