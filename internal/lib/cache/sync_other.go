//go:build !linux

package cache

import (
	"io/fs"
	"os"
	"path/filepath"
)

// syncAll writes the files in dir to the disk, so that none is incomplete after a power failure.
func syncAll(dir string) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		return f.Sync()
	})
}
