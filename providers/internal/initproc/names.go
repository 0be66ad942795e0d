//go:build linux

package initproc

import (
	"errors"
	"io"
	"os"
	"slices"
)

const (
	// maxHeld bounds the names that are in memory while a tree is read, in bytes: this process
	// counts against the memory limit of its container, and directories may have millions of names.
	maxHeld = 16 << 20
	// nameCost is the memory that a name takes in addition to its bytes.
	nameCost = 32
	// nameBatch is how many names are read at a time.
	nameBatch = 256
)

// heldNames counts the bytes of the names that are in memory: those of a directory, and of the
// directories above it.
type heldNames int

// read returns the next names of a directory, sorted, until drop is called with them. There are
// more if all would take too much memory.
func (h *heldNames) read(dir *os.File) (names []string, more bool, err error) {
	for {
		some, err := dir.Readdirnames(nameBatch)
		names = append(names, some...)
		for _, name := range some {
			*h += heldNames(len(name) + nameCost)
		}
		ended := errors.Is(err, io.EOF) || vanished(err)
		if err != nil && !ended {
			return nil, false, err
		}
		if ended || *h > maxHeld {
			slices.Sort(names)
			return names, !ended, nil
		}
	}
}

// drop releases names that are not needed any more.
func (h *heldNames) drop(names []string) {
	for _, name := range names {
		*h -= heldNames(len(name) + nameCost)
	}
}
