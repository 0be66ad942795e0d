package confine

import (
	"encoding/json"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

var namespaces = []uintptr{
	unix.CLONE_NEWNS, unix.CLONE_NEWCGROUP, unix.CLONE_NEWUTS, unix.CLONE_NEWIPC, unix.CLONE_NEWUSER,
	unix.CLONE_NEWPID, unix.CLONE_NEWNET,
}

// native lists the calls that the filter refuses in this machine's own ABI.
func native() map[string]uintptr {
	column := supported[runtime.GOARCH][0]
	out := map[string]uintptr{}
	for _, c := range refused {
		if c.number[column] != none {
			out[c.name] = uintptr(c.number[column])
		}
	}
	return out
}

// tryCalls makes each refused call with arguments that make no sense, and prints how they ended.
// The kernel finds fault with the arguments if the filter does not with the call.
func tryCalls([]string) error {
	const bad = ^uintptr(0)
	got := map[string]string{}
	for name, number := range native() {
		_, _, errno := unix.RawSyscall6(number, bad, bad, bad, bad, bad, bad)
		got[name] = unix.ErrnoName(errno)
	}
	return json.NewEncoder(os.Stdout).Encode(got)
}

func TestRefusedCallsFailInTheKernel(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		outcome := func(r result) map[string]string {
			var got map[string]string
			if err := json.Unmarshal([]byte(r.stdout), &got); err != nil {
				t.Fatalf("%v in %q\n%s", err, r.stdout, r.stderr)
			}
			return got
		}
		free, confined := outcome(p.free(t, "role:calls")), outcome(p.confined(t, Options{}, "role:calls"))
		if len(confined) < 40 {
			t.Errorf("only %d calls were tried", len(confined))
		}
		for name, errno := range confined {
			want := "EPERM"
			if name == "clone3" {
				want = "ENOSYS"
			}
			if errno != want {
				t.Errorf("%s: %s, want %s", name, errno, want)
			}
			// Without capabilities on the machine the kernel itself refuses some of them.
			if !p.single && free[name] == want {
				t.Errorf("%s fails with %s without the filter, so this tells nothing", name, want)
			}
		}
	})
}

func TestProgramsCannotMakeOrEnterNamespaces(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		for _, tc := range [][]string{
			{"unshare", "-U", "true"},
			{"unshare", "-m", "true"},
			{"nsenter", "--uts=/proc/self/ns/uts", "true"},
		} {
			if r := p.confined(t, Options{}, tc...); r.code == 0 {
				t.Errorf("%q works", tc)
			}
		}
		p.free(t, "unshare", "-m", "true").want(t, "")
		for _, flag := range namespaces {
			arg := strconv.Itoa(int(flag))
			p.free(t, "role:clone", arg).want(t, "")
			if r := p.confined(t, Options{}, "role:clone", arg); r.code == 0 {
				t.Errorf("clone with flag %#x works", flag)
			}
		}
	})
}

func tryClone(args []string) error {
	flag, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	cmd := exec.Command("true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: uintptr(flag)}
	return cmd.Run()
}

func TestProgramsCannotMount(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		dir := p.writableDir(t)
		script := `unshare -m sh -c 'mount -t tmpfs none "$0" && umount "$0"' "$0"`
		p.free(t, "sh", "-c", script, dir).want(t, "")
		if r := p.confined(t, Options{}, "mount", "-t", "tmpfs", "none", dir); r.code == 0 {
			t.Error("mount works")
		}
	})
}
