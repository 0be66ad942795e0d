package job

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/internal/lib/quantity"
)

// Disk is a directory on a file system that trials fill.
type Disk struct {
	What string // its contents, for messages: "results"
	Dir  string // need not exist yet
}

// Watermark is the free space that each disk must have for another trial to start. The zero
// Watermark has no limit.
type Watermark struct {
	Min   int64 // bytes; 0: any
	Disks []Disk
	// Free returns the number of bytes that the user may still write below an existing directory.
	// nil: the system is asked.
	Free func(dir string) (int64, error)
}

// LowDiskError means that a disk has less free space than the watermark.
type LowDiskError struct {
	Disk      Disk
	Free, Min int64 // bytes
}

func (e *LowDiskError) Error() string {
	return fmt.Sprintf("the disk with %s (%s) has %s left, and environment.min_free_disk is %s, so no more trials are started",
		e.Disk.What, e.Disk.Dir, quantity.Size(e.Free), quantity.Size(e.Min))
}

// Check returns a *LowDiskError for the first disk that is too full, or nil. A disk whose free
// space is unknown counts as empty.
func (w Watermark) Check() error {
	if w.Min <= 0 {
		return nil
	}
	for _, disk := range w.Disks {
		if n, err := FreeDisk(disk.Dir, w.Free); err == nil && n < w.Min {
			return &LowDiskError{Disk: disk, Free: n, Min: w.Min}
		}
	}
	return nil
}

// nearest returns dir, or its nearest parent that exists.
func nearest(dir string) string {
	for {
		above := filepath.Dir(dir)
		if _, err := os.Stat(dir); err == nil || above == dir {
			return dir
		}
		dir = above
	}
}

// FreeDisk returns the number of bytes that the user may still write below a directory, which need
// not exist yet. free is as in Watermark.
func FreeDisk(dir string, free func(dir string) (int64, error)) (int64, error) {
	if free == nil {
		free = freeDisk
	}
	return free(nearest(dir))
}

func freeDisk(dir string) (int64, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return 0, err
	}
	return int64(stat.Bavail) * int64(stat.Bsize), nil //nolint:unconvert // their types differ between systems
}
