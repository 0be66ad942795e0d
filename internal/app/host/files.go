package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteNew writes a file that does not exist yet.
func WriteNew(target string, data []byte, mode fs.FileMode) (err error) {
	file, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	_, err = file.Write(data)
	return err
}

// Resolved follows the links in an absolute path as far as it exists.
func Resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	parent := filepath.Dir(path)
	if parent == path {
		return path
	}
	return filepath.Join(Resolved(parent), filepath.Base(path))
}
