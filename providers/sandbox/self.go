//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/providers/sandbox/internal/inside"
)

// firstFree is above the files that a process is started with, which take the lowest numbers.
const firstFree = 100

// self is this program's file, also when it was replaced or removed meanwhile.
const self = inside.Self

// sealed is the path to start this program by in sandboxes: a copy of it in memory that nobody can write to. Commands can get hold of
// the program that process 1 runs (bash replaced by a link to /proc/self/exe is enough), and real root could
// write to the machine's file as soon as nothing runs it. See CVE-2019-5736. Where no copy can be made it is the file.
var sealed = sync.OnceValue(func() string {
	fd, err := copySelf()
	if err != nil {
		return self
	}
	return fmt.Sprintf("/proc/self/fd/%d", fd) // of the child, which has inherited it
})

func copySelf() (int, error) {
	file, err := os.Open(self)
	if err != nil {
		return -1, err
	}
	defer file.Close()
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate("rollout", flags|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate("rollout", flags)
	}
	if err != nil {
		return -1, err
	}
	memory := os.NewFile(uintptr(fd), "rollout")
	defer memory.Close()
	if _, err := io.Copy(memory, file); err != nil {
		return -1, err
	}
	if _, err := unix.FcntlInt(memory.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		return -1, err
	}
	return unix.FcntlInt(memory.Fd(), unix.F_DUPFD_CLOEXEC, firstFree)
}
