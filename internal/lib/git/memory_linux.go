package git

import "golang.org/x/sys/unix"

// limitMemory limits the memory of a process that was just started, in bytes; 0 sets no limit.
// Files that git maps do not count. Where the limit cannot be set, git runs without it.
func limitMemory(pid int, bytes int64) {
	if bytes > 0 {
		_ = unix.Prlimit(pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: uint64(bytes), Max: uint64(bytes)}, nil)
	}
}
