package job

import (
	"errors"
	"io/fs"
	"path/filepath"
)

// RealPath returns the absolute path without links of a file that need not exist.
func RealPath(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(path)
	if dir := filepath.Dir(path); errors.Is(err, fs.ErrNotExist) && dir != path {
		real, err = RealPath(dir)
		return filepath.Join(real, filepath.Base(path)), err
	}
	return real, err
}

// PathsFrom returns the result.Plan.PathsFrom of a job in the directory dir, which need not exist,
// whose relative paths begin at from.
func PathsFrom(dir, from string) (string, error) {
	real, err := RealPath(dir)
	if err != nil {
		return "", err
	}
	below, err := filepath.Rel(real, from)
	return filepath.ToSlash(below), err
}
