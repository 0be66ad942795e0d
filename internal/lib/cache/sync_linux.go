package cache

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncAll writes the files in dir to the disk, so that none is incomplete after a power failure.
func syncAll(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}
