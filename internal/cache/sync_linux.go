package cache

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncAll brings what is in dir to the disk, so that nothing is there by half after a power cut.
func syncAll(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}
