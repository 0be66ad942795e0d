//go:build linux

package initproc

import (
	"fmt"
	"os"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sigaction is the kernel's struct sigaction.
type sigaction struct {
	handler, flags, restorer uintptr
	mask                     uint64
}

// Two values of sigaction.handler, and what else there is to say of a handler. Source: the kernel's
// include/uapi/asm-generic/signal.h; x86 has the same numbers.
const (
	byDefault uintptr = 0
	ignored   uintptr = 1

	onSignalStack = 0x08000000 // SA_ONSTACK: Go has one for each thread
	restartCalls  = 0x10000000 // SA_RESTART
	hasRestorer   = 0x04000000 // SA_RESTORER, which x86-64 cannot do without
)

var (
	// notIgnored lists the signals for which Go's runtime and this package need handlers, and those
	// that cannot be ignored.
	notIgnored = []unix.Signal{unix.SIGCHLD, unix.SIGURG, unix.SIGKILL, unix.SIGSTOP}
	// stopping are those that stop or continue a process. The kernel never stops the first process
	// of a pid namespace.
	stopping = []unix.Signal{unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGCONT}
)

// resistSignals keeps commands from ending this process by signals. Commands still start with the
// default of every signal, even if Rollout was started with some of them ignored, as nohup does.
//
// Go's runtime has a handler for nearly every signal, and takes some signals for its own faults.
// With the default action the kernel would end this process, too, if its first thread blocks the
// signal while another does not. So signals for which Go has a handler are ignored: Go sets them to
// their defaults in the processes that it starts. Go has no such handler for 32 to 34, which the C
// libraries use, nor for SIGHUP and SIGINT if they were ignored when this process began. Those get
// a handler that does nothing: execve resets handlers, but keeps ignored signals.
func resistSignals() error {
	const last, firstOfC, lastOfC = 64, 32, 34
	for s := unix.Signal(1); s <= last; s++ {
		if slices.Contains(notIgnored, s) {
			continue
		}
		var now sigaction
		err := setAction(s, nil, &now)
		action := sigaction{handler: ignored}
		switch {
		case slices.Contains(stopping, s):
			action.handler = byDefault
		case now.handler == byDefault, now.handler == ignored, s >= firstOfC && s <= lastOfC:
			action = doNothing()
		}
		if err == nil {
			err = setAction(s, &action, nil)
		}
		if err != nil {
			return fmt.Errorf("set what signal %d does: %w", s, err)
		}
	}
	return nil
}

func setAction(s unix.Signal, action, old *sigaction) error {
	_, _, errno := unix.Syscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(action)), // #nosec G103 -- the call takes pointers
		uintptr(unsafe.Pointer(old)), unsafe.Sizeof(sigaction{}.mask), 0, 0) // #nosec G103
	if errno != 0 {
		return errno
	}
	return nil
}

// unblockSignals executes this program again in its role if Rollout was started with blocked
// signals: Go gives the processes that it starts the mask that it was started with, and cannot
// change it. Go unblocks some signals for itself (SIGCHLD, SIGPROF, and those of faults), so
// unblockSignals does not notice if only those were blocked. The first thread must call it.
func unblockSignals(role string) error {
	var blocked unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &unix.Sigset_t{}, &blocked); err != nil {
		return fmt.Errorf("unblock signals: %w", err)
	}
	if blocked == (unix.Sigset_t{}) {
		return nil
	}
	if err := syscall.Exec(Self, []string{role}, os.Environ()); err != nil {
		return fmt.Errorf("execute the program without blocked signals: %w", err)
	}
	return nil
}
