package confine

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// onItsOwnThread confines a thread, says so, and keeps it until stay is closed.
func onItsOwnThread(done chan<- error, stay <-chan struct{}) {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	_, err := Thread(Options{})
	if err == nil {
		if _, _, errno := unix.RawSyscall(unix.SYS_SETNS, ^uintptr(0), 0, 0); errno != unix.EPERM {
			err = fmt.Errorf("the thread itself may call setns: %w", errno)
		}
	}
	done <- err
	<-stay
}

// rightsOfOthers returns the rights of every thread without a filter, and whether this one may make
// calls.
func rightsOfOthers(t *testing.T) string {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	status, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/status", unix.Gettid()))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "Cap") || strings.HasPrefix(line, "Seccomp") || strings.HasPrefix(line, "NoNew") {
			out = append(out, strings.TrimSpace(line))
		}
	}
	_, _, errno := unix.RawSyscall(unix.SYS_SETNS, ^uintptr(0), 0, 0)
	return fmt.Sprint(out, errno)
}

// inheritAnd makes every capability inheritable and ambient, and goes on as confine.
func inheritAnd(args []string) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	for i := range data {
		data[i].Inheritable = data[i].Permitted
	}
	if err := unix.Capset(&header, &data[0]); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, unix.CAP_SYS_ADMIN, 0, 0); err != nil {
		return err
	}
	return confine(args)
}

// withoutAdminAnd gives up one capability, and goes on as confine.
func withoutAdminAnd(args []string) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	data[0].Effective &^= 1 << unix.CAP_SYS_ADMIN
	if err := unix.Capset(&header, &data[0]); err != nil {
		return err
	}
	return confine(args)
}
