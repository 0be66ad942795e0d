package confine

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// landlockScopes is the version of Landlock's interface that first has scopes, that of Linux 6.12.
// Source: Documentation/userspace-api/landlock.rst, "IPC scoping (ABI < 6)".
const landlockScopes = 6

// scopeSockets keeps the thread from abstract Unix sockets that were made by processes which do not
// descend from it. Network namespaces would separate them too, but a sandbox may share the
// machine's.
//
// It handles no access to files, so that nothing is asked about them: a ruleset that handles any
// access would also refuse to rename and link across directories.
func scopeSockets() error {
	version, err := landlockVersion()
	if err != nil {
		return fmt.Errorf("this kernel has no Landlock: %w", err)
	}
	if version < landlockScopes {
		return fmt.Errorf("this kernel's Landlock has version %d, and version %d (Linux 6.12) is needed", version, landlockScopes)
	}
	// A kernel that knows fewer fields takes the longer structure as long as the rest is zero.
	attr := unix.LandlockRulesetAttr{Scoped: unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET}
	ruleset, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET,
		uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0) // #nosec G103 -- the call takes a pointer
	if errno != 0 {
		return fmt.Errorf("make a Landlock ruleset: %w", errno)
	}
	defer unix.Close(int(ruleset))
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0, 0); errno != 0 {
		return fmt.Errorf("enter a Landlock domain: %w", errno)
	}
	return nil
}

// landlockVersion returns the version of the kernel's interface, from 1.
func landlockVersion() (int, error) {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0, errno
	}
	return int(version), nil
}
