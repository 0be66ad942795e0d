//go:build linux

package sandbox

import (
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/providers/internal/initproc"
)

// self is the path of this program's file. It stays valid if the file was replaced or removed.
const self = initproc.Self

// sealedProgram returns the program that is started in sandboxes: a copy of guestProgram in memory
// that is sealed against writing. Commands can open the program that process 1 runs (bash replaced
// by a link to /proc/self/exe is enough), and real root could write to the machine's file as soon
// as no process runs it. See CVE-2019-5736. It returns nil if no copy can be made.
//
// Each process that runs it gets its own file descriptor. A shared one would not do: starting a
// process renumbers descriptors in it, and may put another file at that number.
var sealedProgram = sync.OnceValue(func() *os.File {
	file, err := copySelf()
	if err != nil {
		return nil
	}
	return file
})

func copySelf() (*os.File, error) {
	file, err := os.Open(guestProgram())
	if err != nil {
		return nil, err
	}
	defer file.Close()
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate("rollout", flags|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate("rollout", flags)
	}
	if err != nil {
		return nil, err
	}
	memory := os.NewFile(uintptr(fd), "rollout")
	_, err = io.Copy(memory, file)
	if err == nil {
		_, err = unix.FcntlInt(memory.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	if err != nil {
		memory.Close()
		return nil, err
	}
	return memory, nil
}
