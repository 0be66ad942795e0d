package suite

import (
	"io/fs"
	"syscall"
)

// hardLinks returns the number of names of a file.
func hardLinks(info fs.FileInfo) uint64 {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 1
	}
	return uint64(stat.Nlink)
}
