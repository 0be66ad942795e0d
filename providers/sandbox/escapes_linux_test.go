package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/internal/core/environment"
)

// escapeKey makes this program, inside a sandbox, try to escape. Its value is the abstract socket
// of a process outside.
const escapeKey = "ROLLOUT_TEST_ESCAPE"

func init() { //nolint:gochecknoinits // TestMain is for all tests of the package
	if socket := os.Getenv(escapeKey); socket != "" {
		escape(socket)
		os.Exit(0)
	}
}

// escape prints every attempt that succeeds, and "done".
func escape(socket string) {
	runtime.LockOSThread()
	attempt := func(what string, err error) {
		if err == nil {
			fmt.Println(what)
		}
	}
	_ = os.MkdirAll("/tmp/escape", 0o755)
	attempt("mount a tmpfs", unix.Mount("x", "/tmp/escape", "tmpfs", 0, ""))
	attempt("mount proc", unix.Mount("proc", "/tmp/escape", "proc", 0, ""))
	attempt("bind the root", unix.Mount("/", "/tmp/escape", "", unix.MS_BIND|unix.MS_REC, ""))
	attempt("remount /proc/sys writable", unix.Mount("", "/proc/sys", "", unix.MS_BIND|unix.MS_REMOUNT, ""))
	attempt("remount the root with devices", unix.Mount("", "/", "", unix.MS_BIND|unix.MS_REMOUNT, ""))
	attempt("unmount /proc/keys", unix.Unmount("/proc/keys", unix.MNT_DETACH))
	attempt("unmount /usr", unix.Unmount("/usr", unix.MNT_DETACH))
	attempt("change the root", unix.PivotRoot("/", "/tmp/escape"))
	for name, flag := range map[string]int{"mount": unix.CLONE_NEWNS, "user": unix.CLONE_NEWUSER, "pid": unix.CLONE_NEWPID, "net": unix.CLONE_NEWNET} {
		attempt("unshare the "+name+" namespace", unix.Unshare(flag))
		child := exec.Command("/bin/true")
		child.SysProcAttr = &syscall.SysProcAttr{Cloneflags: uintptr(flag)}
		attempt("clone with a "+name+" namespace", child.Run())
	}
	if namespace, err := unix.Open("/proc/1/ns/mnt", unix.O_RDONLY, 0); err == nil {
		attempt("enter process 1's mount namespace", unix.Setns(namespace, unix.CLONE_NEWNS))
	}
	attempt("set what Ctrl-Alt-Del does", unix.Reboot(unix.LINUX_REBOOT_CMD_CAD_OFF))
	attempt("name the host", unix.Sethostname([]byte("escaped")))
	attempt("set the clock", unix.Settimeofday(&unix.Timeval{Sec: 1}))
	_, err := unix.Klogctl(3, make([]byte, 100))
	attempt("read the kernel's log", err)
	_, err = unix.KeyctlInt(unix.KEYCTL_GET_KEYRING_ID, unix.KEY_SPEC_USER_KEYRING, 0, 0, 0)
	attempt("find the user's keyring", err)
	_, err = unix.OpenByHandleAt(unix.AT_FDCWD, unix.NewFileHandle(1, []byte{2, 0, 0, 0, 0, 0, 0, 0}), unix.O_RDONLY)
	attempt("open the root of the disk by its handle", err)
	attempt("trace process 1", unix.PtraceAttach(1))
	for _, name := range []string{"environ", "mem", "maps", "fd/0", "fd/3", "root/etc/hosts", "cwd/etc/hosts", "auxv", "syscall"} {
		_, err := os.ReadFile("/proc/1/" + name)
		attempt("read /proc/1/"+name, err)
	}
	for _, name := range []string{"exe", "root", "cwd", "fd/0", "fd/3"} {
		_, err := os.Readlink("/proc/1/" + name)
		attempt("follow /proc/1/"+name, err)
	}
	for _, name := range []string{
		"/proc/sys/kernel/hostname", "/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches", "/proc/sys/kernel/modprobe", "/proc/sysrq-trigger", "/proc/kcore",
		"/proc/irq/default_smp_affinity", "/sys/power/state", "/sys/kernel/uevent_helper", "/dev/mem", "/dev/kmsg", "/dev/port",
		"/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/pids/cgroup.procs",
	} {
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		attempt("open "+name+" for writing", err)
		if err == nil {
			f.Close()
		}
	}
	escapeByDevices(attempt)
	escapeByChroot(attempt)
	conn, err := net.Dial("unix", "@"+socket)
	attempt("reach an abstract socket", err)
	if err == nil {
		conn.Close()
	}
	fmt.Println("done")
}

// escapeByDevices creates device nodes of the machine's disks, and reads them.
func escapeByDevices(attempt func(string, error)) {
	for _, dir := range []string{"/", "/tmp", "/usr/bin", "/dev", "/dev/shm", "/dev/pts", "/run"} {
		for _, disk := range [][2]uint32{{8, 0}, {254, 0}, {253, 0}, {259, 0}, {7, 0}} {
			name := filepath.Join(dir, "escape-disk")
			if unix.Mknod(name, unix.S_IFBLK|0o666, int(unix.Mkdev(disk[0], disk[1]))) != nil {
				continue
			}
			_, err := os.ReadFile(name)
			attempt(fmt.Sprintf("read block device %d in %s", disk, dir), err)
			f, err := os.OpenFile(name, os.O_RDWR, 0)
			attempt(fmt.Sprintf("open block device %d in %s", disk, dir), err)
			if err == nil || errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ENODEV) {
				fmt.Printf("the kernel asks for block device %d in %s: %v\n", disk, dir, err)
				f.Close()
			}
			_ = os.Remove(name)
		}
		name := filepath.Join(dir, "escape-memory")
		if unix.Mknod(name, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 1))) == nil {
			_, err := os.Open(name)
			attempt("open the machine's memory in "+dir, err)
			_ = os.Remove(name)
		}
	}
}

// escapeByChroot tries the classic escape: a root below the open directory, which can then be left
// by "..".
func escapeByChroot(attempt func(string, error)) {
	var before, after unix.Stat_t
	_ = unix.Stat("/", &before)
	_ = os.MkdirAll("/tmp/escape/deep", 0o755)
	if unix.Chdir("/") != nil || unix.Chroot("/tmp/escape/deep") != nil {
		return
	}
	for range 1000 {
		_ = unix.Chdir("..")
	}
	_ = unix.Chroot(".")
	_ = unix.Stat("/", &after)
	if before.Ino == after.Ino && before.Dev == after.Dev {
		attempt("leave the root", unix.EPERM)
		return
	}
	attempt("leave the root", nil)
}

func TestEscapes(t *testing.T) {
	program, err := os.ReadFile(self)
	must(t, err)
	socket := "rollout-test-" + newID()
	listener, err := net.Listen("unix", "@"+socket)
	must(t, err)
	defer listener.Close()
	reachable := scopesMissing(t)
	dir := storeDir(t)
	for _, network := range choices["network"] {
		t.Run("network "+network, func(t *testing.T) {
			p := newProvider(t, map[string]any{"dir": dir, "base": baseHost, "network": network})
			e := create(t, p, environment.CreateOptions{
				Image: testImage, Env: map[string]string{escapeKey: socket},
				Files: []environment.Copy{{Src: fstest.MapFS{"escape": {Data: program, Mode: 0o755}}, Dst: "/tmp"}},
			})
			status := run(t, e, "grep -E '^(Cap(Bnd|Eff|Inh|Amb)|Seccomp):' /proc/self/status; readlink /proc/self/ns/*")
			for _, want := range []string{"CapBnd:\t00000000a80425fb", "CapEff:\t00000000a80425fb", "CapInh:\t0000000000000000", "CapAmb:\t0000000000000000", "Seccomp:\t2"} {
				if !strings.Contains(status, want+"\n") {
					t.Errorf("%q is not in\n%s", want, status)
				}
			}
			for _, kind := range []string{"mnt", "pid", "uts", "ipc"} {
				if link, err := os.Readlink("/proc/self/ns/" + kind); err != nil || strings.Contains(status, link+"\n") {
					t.Errorf("the %s namespace is this process's, %s (%v)", kind, link, err)
				}
			}
			got := run(t, e, "/tmp/escape < /dev/null")
			got = strings.ReplaceAll(got, reachable, "")
			if got != "done\n" {
				t.Errorf("a command could\n%s", got)
			}
			mountsAreHarmless(t, run(t, e, "cat /proc/self/mountinfo"))
			if _, err := e.Exec(t.Context(), "kill -9 1; kill -9 -1", environment.ExecOptions{}); err != nil {
				t.Error(err)
			}
			run(t, e, "true") // process 1 survived
		})
	}
}

// scopesMissing returns the attempts that succeed if the kernel cannot separate abstract sockets.
func scopesMissing(t *testing.T) string {
	t.Helper()
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno == 0 && version >= 6 {
		return "\x00"
	}
	t.Logf("this kernel's Landlock (version %d, %v) has no scopes: abstract sockets can be reached", version, errno)
	return "reach an abstract socket\n"
}

// mountsAreHarmless checks that no mount of the machine's files is writable, except overlays.
func mountsAreHarmless(t *testing.T, mountinfo string) {
	t.Helper()
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		_, after, _ := strings.Cut(line, " - ")
		kind := strings.Fields(after)[0]
		at, options := fields[4], ","+fields[5]+","
		device := kind == "devtmpfs" || strings.HasPrefix(at, "/dev/") || strings.HasPrefix(at, "/proc/")
		readOnly := strings.Contains(options, ",ro,")
		switch {
		case kind == "overlay" && strings.Contains(options, ",nodev,"):
		case kind == "proc" && at == "/proc":
		case kind == "tmpfs" && fields[3] == "/" && (at == "/dev" || at == "/dev/shm"): // its own
		case kind == "devpts" && at == "/dev/pts":
		case device && fields[3] != "/" && (filepath.Dir(at) == "/dev" || filepath.Dir(at) == "/proc"): // a single device
		case readOnly:
		default:
			t.Errorf("this is mounted so that it can be written to: %s", line)
		}
	}
}

func TestMachinesFilesAreNeverChanged(t *testing.T) {
	p := newProvider(t, map[string]any{"dir": storeDir(t), "base": baseHost})
	e := create(t, p, environment.CreateOptions{Image: testImage})
	mark := "rollout-test-" + newID()
	before, err := os.Stat("/usr/bin/env")
	must(t, err)
	run(t, e, strings.ReplaceAll(`set -e
		echo MARK > /usr/bin/MARK; mkdir -p /usr/lib/MARK /etc/MARK; echo MARK >> /etc/passwd; echo MARK > /etc/hosts
		cp /usr/bin/tac /usr/bin/MARK-tac; rm /usr/bin/tac /usr/bin/nl; ln -s /nowhere /usr/local/bin/MARK; rm -rf /usr/share/doc
		cp /usr/bin/env /tmp/env; rm /usr/bin/env; cp /tmp/env /usr/bin/env; touch -d 2001-01-01 /usr/bin/env; chmod 700 /usr/bin/env
		[ ! -e /usr/bin/nl ] && [ ! -e /usr/bin/tac ] && [ ! -e /usr/share/doc/. ] && /usr/bin/MARK-tac /etc/hosts | grep -q MARK`, "MARK", mark))
	for _, path := range []string{"/usr/bin/tac", "/usr/bin/nl"} {
		if !exists(path) {
			t.Errorf("%s is gone", path)
		}
	}
	for _, path := range []string{"/usr/bin/" + mark, "/usr/lib/" + mark, "/etc/" + mark, "/usr/local/bin/" + mark} {
		if exists(path) {
			t.Errorf("%s is there", path)
		}
	}
	if after, err := os.Stat("/usr/bin/env"); err != nil || !after.ModTime().Equal(before.ModTime()) || after.Mode() != before.Mode() {
		t.Errorf("/usr/bin/env was %v %v, and is %v, %v", before.ModTime(), before.Mode(), after, err)
	}
	for _, path := range []string{"/etc/passwd", "/etc/hosts"} {
		if text, err := os.ReadFile(path); err != nil || bytes.Contains(text, []byte(mark)) {
			t.Errorf("%s is changed, or cannot be read: %v", path, err)
		}
	}
	other := create(t, p, environment.CreateOptions{Image: testImage})
	if got := run(t, other, "ls /usr/bin/tac /usr/bin/nl; find /usr /etc -name '"+mark+"*'"); got != "/usr/bin/nl\n/usr/bin/tac\n" {
		t.Errorf("another environment sees\n%s", got)
	}
}
