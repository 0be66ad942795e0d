package confine

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/internal/test/testenv"
)

// judge runs the filter as the kernel would, and says the action. others are the arguments after
// the first.
func judge(t *testing.T, m machine, fakeOwners bool, arch, number, firstArg uint32, others ...uint64) uint32 {
	t.Helper()
	vm, err := bpf.NewVM(program(m, fakeOwners))
	if err != nil {
		t.Fatal(err)
	}
	// The VM reads as networks do, so the words stand in that order here.
	data := binary.BigEndian.AppendUint32(nil, number)
	data = binary.BigEndian.AppendUint32(data, arch)
	data = append(data, make([]byte, 8)...)
	for _, arg := range append([]uint64{uint64(firstArg)}, others...) {
		data = binary.BigEndian.AppendUint32(data, uint32(arg))
		data = binary.BigEndian.AppendUint32(data, uint32(arg>>32))
	}
	data = append(data, make([]byte, 64-len(data))...)
	action, err := vm.Run(data)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(action)
}

const allowed = unix.SECCOMP_RET_ALLOW

func failing(errno unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(errno) }

// refusals are the calls that have to fail, by name, once more: a call removed from the table is
// missed.
const refusals = `unshare setns add_key keyctl request_key
	mount umount umount2 pivot_root move_mount open_tree open_tree_attr fsopen fsmount fsconfig fspick mount_setattr open_by_handle_at
	bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register
	kexec_load kexec_file_load create_module init_module finit_module delete_module reboot syslog acct
	swapon swapoff quotactl quotactl_fd iopl ioperm vm86 vm86old
	settimeofday stime clock_settime clock_settime64 adjtimex clock_adjtime clock_adjtime64 clone3`

const fakes = "chown fchown lchown fchownat chown32 fchown32 lchown32 setgroups setgroups32"

// eachABI calls check with every table of numbers, read from golang.org/x/sys.
func eachABI(t *testing.T, check func(t *testing.T, m machine, a abi, numbers map[string]uint32)) {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/sys").Output()
	dir := strings.TrimSpace(string(out))
	if err != nil || dir == "" {
		testenv.Lacks(t, "go", fmt.Sprintf("the go command and the module's sources: %v", err))
	}
	for _, m := range supported {
		for _, a := range m {
			name := [abis]string{"amd64", "386", "arm64", "arm"}[a]
			t.Run(name, func(t *testing.T) {
				check(t, m, a, numbersOf(t, filepath.Join(dir, "unix", "zsysnum_linux_"+name+".go")))
			})
		}
	}
}

var numberLine = regexp.MustCompile(`(?m)^\s+SYS_(\w+)\s+= (\d+)$`)

func TestEveryCallIsJudgedInEveryABI(t *testing.T) {
	eachABI(t, func(t *testing.T, m machine, a abi, numbers map[string]uint32) {
		want := map[string]uint32{}
		for _, name := range strings.Fields(refusals) {
			want[name] = failing(unix.EPERM)
		}
		want["clone3"] = failing(unix.ENOSYS)
		for name, number := range numbers {
			expected, ok := want[name]
			if !ok {
				expected = allowed
			}
			if got := judge(t, m, false, audit[a], number, 0); got != expected {
				t.Errorf("%s: %#x, want %#x", name, got, expected)
			}
			if strings.Contains(" "+fakes+" ", " "+name+" ") {
				expected = failing(0)
			}
			if got := judge(t, m, true, audit[a], number, 0); got != expected {
				t.Errorf("%s with owners faked: %#x, want %#x", name, got, expected)
			}
		}
	})
}

func TestCloneFailsOnlyForNamespaces(t *testing.T) {
	const thread = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_THREAD |
		unix.CLONE_SYSVSEM | unix.CLONE_SETTLS | unix.CLONE_PARENT_SETTID | unix.CLONE_CHILD_CLEARTID
	eachABI(t, func(t *testing.T, m machine, a abi, numbers map[string]uint32) {
		for _, flags := range []uint32{uint32(unix.SIGCHLD), thread, unix.CLONE_VM | unix.CLONE_VFORK | unix.CLONE_PIDFD | uint32(unix.SIGCHLD)} {
			if got := judge(t, m, false, audit[a], numbers["clone"], flags); got != allowed {
				t.Errorf("flags %#x: %#x", flags, got)
			}
		}
		for _, flag := range namespaces {
			if got := judge(t, m, false, audit[a], numbers["clone"], uint32(flag)|uint32(unix.SIGCHLD)); got != failing(unix.EPERM) {
				t.Errorf("flag %#x: %#x", flag, got)
			}
		}
	})
}

func TestPrlimitOnlyForTheCaller(t *testing.T) {
	eachABI(t, func(t *testing.T, m machine, a abi, numbers map[string]uint32) {
		for _, tc := range []struct {
			name   string
			pid    uint32
			limits uint64
			want   uint32
		}{
			{"one's own", 0, 0x7fff12345678, allowed},
			{"one's own, asked for", 0, 0, allowed},
			{"another's, asked for", 1, 0, allowed},
			{"another's", 1, 0x7fff12345678, failing(unix.EPERM)},
			{"another's, at an address that ends in zeros", 1, 0x7f00000000, failing(unix.EPERM)},
			{"another's, at a low address", 1, 0x1000, failing(unix.EPERM)},
		} {
			if got := judge(t, m, false, audit[a], numbers["prlimit64"], tc.pid, uint64(unix.RLIMIT_NOFILE), tc.limits); got != tc.want {
				t.Errorf("%s: %#x, want %#x", tc.name, got, tc.want)
			}
		}
	})
}

func TestSocketsOfSomeFamiliesCannotBeMade(t *testing.T) {
	eachABI(t, func(t *testing.T, m machine, a abi, numbers map[string]uint32) {
		for family, want := range map[uint32]uint32{
			unix.AF_UNIX: allowed, unix.AF_INET: allowed, unix.AF_INET6: allowed, unix.AF_NETLINK: allowed, unix.AF_PACKET: allowed, 39: allowed,
			unix.AF_VSOCK: failing(unix.EAFNOSUPPORT), unix.AF_ALG: failing(unix.EAFNOSUPPORT),
		} {
			if got := judge(t, m, false, audit[a], numbers["socket"], family, uint64(unix.SOCK_STREAM)); got != want {
				t.Errorf("family %d: %#x, want %#x", family, got, want)
			}
		}
		if a != i386 {
			return
		}
		for does, want := range map[uint32]uint32{1: failing(unix.ENOSYS), 2: allowed, 3: allowed, 8: allowed} {
			if got := judge(t, m, false, audit[a], numbers["socketcall"], does); got != want {
				t.Errorf("socketcall %d: %#x, want %#x", does, got, want)
			}
		}
	})
}

func TestOtherABIsDoNotExist(t *testing.T) {
	amd := supported["amd64"]
	for _, tc := range []struct {
		name         string
		m            machine
		arch, number uint32
		want         uint32
	}{
		{"x32 getpid", amd, unix.AUDIT_ARCH_X86_64, 0x40000000 + 39, failing(unix.ENOSYS)},
		{"x32 keyctl", amd, unix.AUDIT_ARCH_X86_64, 0x40000000 + 250, failing(unix.ENOSYS)},
		{"a call that a debugger took back", amd, unix.AUDIT_ARCH_X86_64, 0xffffffff, allowed},
		{"a call that is newer than the rules", amd, unix.AUDIT_ARCH_X86_64, 9999, allowed},
		{"MIPS on amd64", amd, unix.AUDIT_ARCH_MIPS, 39, failing(unix.ENOSYS)},
		{"amd64 on arm64", supported["arm64"], unix.AUDIT_ARCH_X86_64, 39, failing(unix.ENOSYS)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := judge(t, tc.m, false, tc.arch, tc.number, 0); got != tc.want {
				t.Errorf("%#x, want %#x", got, tc.want)
			}
		})
	}
}

// numbersOf reads a table of golang.org/x/sys.
func numbersOf(t *testing.T, path string) map[string]uint32 {
	t.Helper()
	out, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	numbers := map[string]uint32{}
	for _, m := range numberLine.FindAllStringSubmatch(string(out), -1) {
		n, err := strconv.ParseUint(m[2], 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		numbers[strings.ToLower(m[1])] = uint32(n)
	}
	if len(numbers) < 300 {
		t.Fatalf("%s has only %d calls", path, len(numbers))
	}
	return numbers
}
