//go:build linux

package oci

import (
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/internal/test/testenv"
)

// fenced calls do in a thread that cannot change files outside of base. All hostile archives are
// unpacked this way: a bug in Unpack would otherwise change the machine's files, possibly as root.
// The thread ends with do.
func fenced(t testing.TB, base string, do func()) {
	t.Helper()
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread's limits go with it
		err := fence(base)
		if err == nil {
			do()
		}
		failed <- err
	}()
	if err := <-failed; err != nil {
		testenv.Lacks(t, "sandbox", "Landlock, which keeps a mistake in Unpack from this machine's files: "+err.Error())
	}
}

// fence revokes the calling thread's rights to create, remove and write files outside of base.
// Source: landlock(7).
func fence(base string) error {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return errno
	}
	if version < 3 { // no rights for hard links and truncation yet
		return unix.EOPNOTSUPP
	}
	const rights = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_REFER |
		unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM
	handled := uint64(rights)
	rules, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&handled)), unsafe.Sizeof(handled), 0)
	if errno != 0 {
		return errno
	}
	defer unix.Close(int(rules))
	at, err := unix.Open(base, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	below := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(at)}
	_, _, errno = unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, rules, unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&below)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if _, _, errno = unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, rules, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

func TestFencedThreadCannotWriteOutside(t *testing.T) {
	dir := layerDir(t)
	other := layerDir(t)
	fenced(t, dir, func() {
		if err := unix.Mkdir(dir+"/d", 0o700); err != nil {
			t.Errorf("inside: %v", err)
		}
		if err := unix.Mkdir(other+"/d", 0o700); err != unix.EACCES {
			t.Errorf("outside: %v", err)
		}
	})
	if err := unix.Mkdir(other+"/d", 0o700); err != nil {
		t.Errorf("the fence outlived its thread: %v", err)
	}
}
