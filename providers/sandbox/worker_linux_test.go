package sandbox

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func TestDirectoriesOfAnyDepthAreRemoved(t *testing.T) {
	const depth, files = 3000, 256 // deeper than the open files allowed
	top := t.TempDir() + "/top"
	must(t, os.Mkdir(top, 0o700))
	at, err := unix.Open(top, unix.O_RDONLY, 0)
	must(t, err)
	for i := range depth {
		must(t, unix.Mkdirat(at, "d", 0o700))
		file, err := unix.Openat(at, "file", unix.O_CREAT|unix.O_WRONLY, 0o600)
		must(t, err)
		must(t, unix.Close(file))
		below, err := unix.Openat(at, "d", unix.O_RDONLY, 0)
		must(t, err)
		if i%100 == 50 {
			must(t, unix.Fchmod(at, 0))
		}
		must(t, unix.Close(at))
		at = below
	}
	must(t, unix.Close(at))
	var limit unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: files, Max: limit.Max}))
	removing := removeTree(top)
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	if removing != nil || exists(top) {
		t.Errorf("there is still something: %v", removing)
	}
}
