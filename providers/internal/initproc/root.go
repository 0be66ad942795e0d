//go:build linux

package initproc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/providers/internal/initwire"
)

// refusal says that the kernel does not permit something. The provider knows the remedies.
type refusal struct {
	doing string
	err   error
}

func (r *refusal) Error() string { return r.doing + ": " + r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

func refused(doing string, err error) error {
	if err == nil {
		return nil
	}
	return &refusal{doing, err}
}

// makeRoot mounts everything and makes it the root. The machine's root is then unreachable.
func makeRoot(setup initwire.Setup) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return refused("make mounts private", err)
	}
	if err := os.Chdir(setup.Store); err != nil {
		return err
	}
	mounts := setup.Mounts
	if setup.Memory != nil {
		var err error
		if mounts, err = inMemory(setup); err != nil {
			return err
		}
	}
	for _, m := range mounts {
		if err := mountOverlay(setup, m); err != nil {
			return err
		}
	}
	if err := os.Chdir(setup.Root); err != nil {
		return err
	}
	for _, step := range []func(initwire.Setup) error{mountProc, mountSys, mountDev} {
		if err := step(setup); err != nil {
			return err
		}
	}
	// The old root ends up on top of the new one, and goes. Source: pivot_root(2), "pivot_root(".",
	// ".")".
	if err := unix.PivotRoot(".", "."); err != nil {
		return refused("change the root", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return refused("leave the machine's root", err)
	}
	return os.Chdir("/")
}

// inMemory returns the mounts with their changes in a file system in memory, which it mounts.
func inMemory(setup initwire.Setup) ([]initwire.Mount, error) {
	options := "mode=700"
	if size := *setup.Memory; size > 0 {
		options += ",size=" + strconv.FormatInt(size, 10)
	}
	if err := unix.Mount("scratch", setup.Scratch, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return nil, refused("mount a file system in memory", err)
	}
	mounts := append([]initwire.Mount(nil), setup.Mounts...)
	for i := range mounts {
		m := &mounts[i]
		dir := filepath.Join(setup.Scratch, strconv.Itoa(i))
		m.Upper, m.Work = filepath.Join(dir, "up"), filepath.Join(dir, "work")
		if err := errors.Join(os.Mkdir(dir, 0o755), os.Mkdir(m.Upper, 0o755), os.Mkdir(m.Work, 0o755)); err != nil {
			return nil, err
		}
	}
	return mounts, nil
}

// mountOverlay mounts one overlay below setup.Root.
func mountOverlay(setup initwire.Setup, m initwire.Mount) error {
	lower := make([]string, len(m.Lower))
	for i, dir := range m.Lower {
		lower[i] = escape(dir)
	}
	options := "lowerdir=" + strings.Join(lower, ":") + ",upperdir=" + escape(m.Upper) + ",workdir=" + escape(m.Work)
	if setup.User {
		options += ",userxattr"
	} else {
		// Some kernels have these on: a layer would refer to what layers below have, and be none
		// without them. With userxattr they are always off.
		options += ",redirect_dir=off,metacopy=off"
	}
	if page := os.Getpagesize(); len(options)+len(",volatile") >= page {
		return fmt.Errorf("the image has too many layers: the mount options for %s do not fit into the kernel's %d bytes (join steps of the Dockerfile)", m.At, page)
	}
	target := filepath.Join(setup.Root, m.At)
	// volatile: discarded data need not reach the disk first. Kernels before 5.10 do not know it.
	err := unix.Mount("overlay", target, "overlay", unix.MS_NODEV, options+",volatile")
	if errors.Is(err, unix.EINVAL) {
		err = unix.Mount("overlay", target, "overlay", unix.MS_NODEV, options)
	}
	return refused("mount an overlay at "+m.At, err)
}

// escape escapes the characters with which overlayfs separates options and paths. Source: the
// kernel's Documentation/filesystems/overlayfs.rst.
func escape(path string) string {
	return strings.NewReplacer(`\`, `\\`, ":", `\:`, ",", `\,`).Replace(path)
}

// The functions below work in the new root, which is the current directory.

// The files of /proc that are hidden or read-only. Source: the list of paths that Docker masks.
var (
	hiddenFiles = []string{"proc/kcore", "proc/latency_stats", "proc/timer_list", "proc/sched_debug"}
	// keyFiles show the keys of the user who runs the sandbox, also to the root of a user
	// namespace.
	keyFiles   = []string{"proc/keys", "proc/key-users"}
	hiddenDirs = []string{"proc/acpi", "proc/scsi"}
	readOnly   = []string{"proc/bus", "proc/fs", "proc/irq", "proc/sys", "proc/sysrq-trigger"}
)

func mountProc(setup initwire.Setup) error {
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("proc", "proc", "proc", flags, ""); err != nil {
		return refused("mount /proc", err)
	}
	if setup.Loopback {
		setNetworkDefaults()
	}
	hidden := keyFiles
	if !setup.User { // root of a user namespace may neither read nor write the others
		hidden = slices.Concat(keyFiles, hiddenFiles)
	}
	for _, name := range hidden {
		if err := showDevice("/dev/null", name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return refused("hide /"+name, err)
		}
	}
	if setup.User {
		return nil
	}
	for _, name := range hiddenDirs {
		if err := unix.Mount("hidden", name, "tmpfs", flags|unix.MS_RDONLY, "size=0"); err != nil && !errors.Is(err, os.ErrNotExist) {
			return refused("hide /"+name, err)
		}
	}
	for _, name := range readOnly {
		err := unix.Mount(name, name, "", unix.MS_BIND, "")
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			err = unix.Mount("", name, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|flags, "")
		}
		if err != nil {
			return refused("protect /"+name, err)
		}
	}
	return nil
}

// mountSys mounts /sys read-only. In a user namespace with the machine's network a new sysfs cannot
// be mounted, so the machine's is shown, with the mounts in it.
func mountSys(setup initwire.Setup) error {
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_RDONLY
	if unix.Mount("sysfs", "sys", "sysfs", flags, "") == nil {
		return nil
	}
	if err := unix.Mount("/sys", "sys", "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return refused("show /sys", err)
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC}
	return refused("protect /sys", unix.MountSetattr(unix.AT_FDCWD, "sys", unix.AT_RECURSIVE, &attr))
}

var devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

var deviceLinks = map[string]string{
	"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx",
}

func mountDev(setup initwire.Setup) error {
	// MS_NODEV, because real root could make device nodes of the machine's disks. The devices that
	// are shown are mounts of their own.
	if err := unix.Mount("dev", "dev", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_STRICTATIME, "mode=755,size=64k"); err != nil {
		return refused("mount /dev", err)
	}
	for _, name := range devices {
		target := filepath.Join("dev", name)
		if err := os.WriteFile(target, nil, 0o666); err != nil {
			return err
		}
		if err := showDevice("/dev/"+name, target); err != nil && !errors.Is(err, os.ErrNotExist) {
			return refused("show /dev/"+name, err)
		}
	}
	for name, to := range deviceLinks {
		if err := os.Symlink(to, filepath.Join("dev", name)); err != nil {
			return err
		}
	}
	if err := errors.Join(os.Mkdir("dev/pts", 0o755), os.Mkdir("dev/shm", 0o777|os.ModeSticky), os.Mkdir("dev/mqueue", 0o777|os.ModeSticky)); err != nil {
		return err
	}
	options := "newinstance,ptmxmode=0666,mode=0620"
	if !setup.OneID {
		options += ",gid=5" // the group tty on every distribution
	}
	if err := unix.Mount("devpts", "dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, options); err != nil {
		return refused("mount /dev/pts", err)
	}
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	return refused("mount /dev/shm", unix.Mount("shm", "dev/shm", "tmpfs", flags, "mode=1777,size=64m"))
}

// showDevice shows a device of the machine. It is mounted read-only, because real root could
// otherwise change the machine's device's mode and owner. Devices in read-only mounts can be
// written to.
func showDevice(device, at string) error {
	if err := unix.Mount(device, at, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	return unix.Mount("", at, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NOEXEC, "")
}

// loopbackUp switches the loopback device of the sandbox's own network on.
func loopbackUp() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("switch the loopback device on: %w", err)
	}
	defer unix.Close(socket)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request); err != nil {
		return refused("switch the loopback device on", err)
	}
	return nil
}
