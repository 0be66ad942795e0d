package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// files has the kernel's operations on groups, which are directories with files. The tests have an
// implementation with the rules of version 2, which cannot be mounted on every machine.
type files interface {
	mkdir(dir string) error
	rmdir(dir string) error
	read(file string) (string, error)
	write(file, value string) error
	// list returns the names of the groups in dir.
	list(dir string) ([]string, error)
}

type kernelFiles struct{}

func (kernelFiles) mkdir(dir string) error { return os.Mkdir(dir, 0o755) }

// rmdir does not use os.Remove, which would try unlink first and may return unlink's error.
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

// write does not create the file: a limit whose file is missing is not supported.
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

// gone reports whether a group, or a file of it, does not exist. ENODEV is the error of a file
// whose group was removed while it was open.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV)
}

// busy reports whether a group could not be removed because it is not empty.
func busy(err error) bool {
	return errors.Is(err, syscall.EBUSY) || errors.Is(err, syscall.ENOTEMPTY)
}

// readWords returns the words of a file, or none if it cannot be read.
func readWords(f files, file string) []string {
	text, err := f.read(file)
	if err != nil {
		return nil
	}
	return strings.Fields(text)
}
