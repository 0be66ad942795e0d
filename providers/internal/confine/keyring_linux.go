package confine

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// leaveKeyring gives the thread a new session keyring, so that the kernel itself does not use the
// caller's keys for it (for a network file system, say). It may be refused: by a container's
// filter, a kernel without keys, or the quota of an ordinary user, which is 200 keys by default.
func leaveKeyring() error {
	// Not unix.KeyctlJoinSessionKeyring: its empty name is a name, and joins a keyring that exists.
	const anonymous = 0
	if _, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, anonymous, 0, 0, 0); err != nil {
		return fmt.Errorf("join a new session keyring: %w", err)
	}
	return nil
}
