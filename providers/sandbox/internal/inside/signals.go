//go:build linux

package inside

import (
	"fmt"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kept are the signals that Go's runtime and this package need handlers for, those that cannot be ignored, and those
// that only stop a process: the kernel stops no first process of a pid namespace.
var notIgnored = []unix.Signal{
	unix.SIGCHLD, unix.SIGURG, unix.SIGKILL, unix.SIGSTOP, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGCONT,
}

// ignoreSignals keeps commands from ending this process by signals. Go's runtime has a handler for nearly every one, and
// takes some of those that were sent for faults of its own. Without any the kernel would end this process, too, if its
// first thread happens to block the signal while another does not.
//
// Commands have the defaults all the same, for Go sets them for what it had handlers for. It has none for 32 to 34,
// which the C libraries use, and set handlers for: those are ignored in commands until then.
func ignoreSignals() error {
	const last, ignore = 64, 1
	action := [4]uint64{ignore} // struct kernel_sigaction: handler, flags, restorer, mask
	for s := unix.Signal(1); s <= last; s++ {
		if slices.Contains(notIgnored, s) {
			continue
		}
		_, _, errno := unix.Syscall6(unix.SYS_RT_SIGACTION, uintptr(s),
			uintptr(unsafe.Pointer(&action)), 0, unsafe.Sizeof(action[3]), 0, 0) // #nosec G103 -- the call takes a pointer
		if errno != 0 {
			return fmt.Errorf("ignore signal %d: %w", s, errno)
		}
	}
	return nil
}
