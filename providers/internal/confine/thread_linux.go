package confine

import (
	"fmt"
)

// Options select the optional restrictions of Thread.
type Options struct {
	// FakeOwners makes changes of a file's owner and of the supplementary groups succeed without
	// doing anything. It is for user namespaces in which only one id is mapped, where they would
	// fail, and with them package managers and archivers that run as root.
	FakeOwners bool
}

// Thread restricts the calling thread for good; processes forked from it afterwards inherit all
// restrictions, and other threads keep their rights. The caller has locked its goroutine to the
// thread (runtime.LockOSThread), never unlocks it, and starts the confined processes from it. It
// calls Thread once: processes started after a second call would be out of the reach of those
// started before.
//
// The thread needs CAP_SETPCAP and CAP_SYS_ADMIN in its user namespace, because no_new_privs stays
// off so that setuid programs work. The thread itself keeps its capabilities, for use between fork
// and exec. A program that is run as user 0 gets Docker's default set, less what the thread never
// had. No new namespaces can be made, and clone3 does not exist: the thread cannot start a process
// in a cgroup by a file descriptor (syscall.SysProcAttr.UseCgroupFD).
//
// notes are full sentences to print, one for each part that this kernel does not have and that can
// be done without. After an error the thread may be restricted in part, and nothing should run on
// it.
func Thread(opts Options) (notes []string, err error) {
	if err := scopeSockets(); err != nil {
		notes = append(notes, fmt.Sprintf("Commands can reach abstract sockets of the machine where they share its network: %v.", err))
	}
	if err := leaveKeyring(); err != nil {
		notes = append(notes, fmt.Sprintf("Commands keep the session keyring of their caller, though no key in it can be asked for: %v.", err))
	}
	if err := dropCapabilities(); err != nil {
		return notes, fmt.Errorf("drop capabilities: %w", err)
	}
	// The last, as it refuses calls that the others make.
	if err := filterCalls(opts.FakeOwners); err != nil {
		return notes, fmt.Errorf("filter system calls: %w", err)
	}
	return notes, nil
}
