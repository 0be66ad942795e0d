package confine

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// filterCalls applies the filter to the calling thread. Without no_new_privs, which would break
// setuid programs, this needs CAP_SYS_ADMIN in the thread's user namespace.
func filterCalls(fakeOwners bool) error {
	native, ok := supported[runtime.GOARCH]
	if !ok {
		return fmt.Errorf("there are no numbers of system calls for %s: use provider docker", runtime.GOARCH)
	}
	raw, err := bpf.Assemble(program(native, fakeOwners))
	if err != nil {
		return fmt.Errorf("assemble: %w", err)
	}
	filter := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		filter[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	// Before Linux 5.16 a filter makes its threads slow with mitigations that they do not need
	// here.
	const flags = unix.SECCOMP_FILTER_FLAG_SPEC_ALLOW
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags,
		uintptr(unsafe.Pointer(&prog))) // #nosec G103 -- the call takes a pointer
	runtime.KeepAlive(filter)
	switch {
	case errors.Is(errno, unix.EACCES):
		return fmt.Errorf("load: %w; CAP_SYS_ADMIN in the user namespace is needed", errno)
	case errno != 0:
		return fmt.Errorf("load: %w", errno)
	}
	return nil
}
