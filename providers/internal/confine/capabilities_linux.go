package confine

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// kept are the capabilities that Docker gives to containers by default: 0xa80425fb.
// Source: github.com/moby/moby, daemon/pkg/oci/caps/defaults.go.
var kept = []uintptr{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FSETID, unix.CAP_FOWNER, unix.CAP_MKNOD, unix.CAP_NET_RAW,
	unix.CAP_SETGID, unix.CAP_SETUID, unix.CAP_SETFCAP, unix.CAP_SETPCAP, unix.CAP_NET_BIND_SERVICE,
	unix.CAP_SYS_CHROOT, unix.CAP_KILL, unix.CAP_AUDIT_WRITE,
}

// dropCapabilities bounds the capabilities that programs can get from user 0 or from their files.
func dropCapabilities() error {
	var keep uint64
	for _, c := range kept {
		keep |= 1 << c
	}
	// The kernel may know more capabilities than this program does.
	for c := uintptr(0); c < 64; c++ {
		has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			break // one beyond the last
		}
		if err != nil {
			return fmt.Errorf("look up capability %d: %w", c, err)
		}
		if has == 0 || keep&(1<<c) != 0 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
			return fmt.Errorf("capability %d: %w; CAP_SETPCAP is needed", c, err)
		}
	}
	return inheritNone()
}

// inheritNone empties the inheritable set, which the bounding set does not limit. The ambient set
// is emptied with it: the kernel keeps it within the inheritable one.
func inheritNone() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3} // pid 0: this thread
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	data[0].Inheritable, data[1].Inheritable = 0, 0
	if err := unix.Capset(&header, &data[0]); err != nil {
		return fmt.Errorf("inherit none: %w", err)
	}
	return nil
}
