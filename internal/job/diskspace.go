package job

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/internal/quantity"
)

// Disk is a folder whose file system trials fill.
type Disk struct {
	What string // is kept there, for people: "results"
	Dir  string // need not exist yet
}

// Watermark is how much of each disk must be free for another trial to start. The zero one is no limit.
type Watermark struct {
	Min   int64 // bytes; 0: any
	Disks []Disk
	// Free is how many bytes a user may still write below a folder that exists. nil: what the system says.
	Free func(dir string) (int64, error)
}

// LowDiskError is the error of a disk below the watermark.
type LowDiskError struct {
	Disk      Disk
	Free, Min int64 // bytes
}

func (e *LowDiskError) Error() string {
	return fmt.Sprintf("the disk with %s (%s) has %s left, and environment.min_free_disk is %s, so no more trials are started",
		e.Disk.What, e.Disk.Dir, quantity.Size(e.Free), quantity.Size(e.Min))
}

// Check is a *LowDiskError for the first disk that is too full, else nil. One that tells nothing counts as empty.
func (w Watermark) Check() error {
	if w.Min <= 0 {
		return nil
	}
	free := w.Free
	if free == nil {
		free = freeDisk
	}
	for _, disk := range w.Disks {
		if n, err := free(nearest(disk.Dir)); err == nil && n < w.Min {
			return &LowDiskError{Disk: disk, Free: n, Min: w.Min}
		}
	}
	return nil
}

// nearest is a folder, or the nearest above it that exists.
func nearest(dir string) string {
	for {
		above := filepath.Dir(dir)
		if _, err := os.Stat(dir); err == nil || above == dir {
			return dir
		}
		dir = above
	}
}

func freeDisk(dir string) (int64, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return 0, err
	}
	return int64(stat.Bavail) * int64(stat.Bsize), nil //nolint:unconvert // their types differ between systems
}
