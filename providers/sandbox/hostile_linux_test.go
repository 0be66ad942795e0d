package sandbox

import (
	"fmt"
	"os"
	"testing"
	"testing/fstest"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/internal/core/environment"
)

// disturbKey makes this program, inside a sandbox, try to end or disturb process 1.
const disturbKey = "ROLLOUT_TEST_DISTURB"

func init() { //nolint:gochecknoinits // TestMain is for all tests of the package
	if os.Getenv(disturbKey) != "" {
		disturb()
		os.Exit(0)
	}
}

// disturb sends process 1 all signals, also disguised as faults of process 1, and removes its
// limits. It prints forbidden actions that succeed.
func disturb() {
	const first, last, queued = 1, 64, -1 // SI_QUEUE
	for s := first; s <= last; s++ {
		_ = unix.Kill(1, unix.Signal(s))
		var info [128]byte
		*(*int32)(unsafe.Pointer(&info[0])) = int32(s)
		*(*int32)(unsafe.Pointer(&info[8])) = queued
		_, _, _ = unix.Syscall(unix.SYS_RT_SIGQUEUEINFO, 1, uintptr(s), uintptr(unsafe.Pointer(&info)))
		pipe := make([]int, 2)
		if unix.Pipe(pipe) != nil {
			continue
		}
		for _, set := range [][2]int{{unix.F_SETSIG, s}, {unix.F_SETOWN, 1}, {unix.F_SETFL, unix.O_ASYNC}} {
			_, _ = unix.FcntlInt(uintptr(pipe[0]), set[0], set[1])
		}
		_, _ = unix.Write(pipe[1], []byte("x"))
		_, _ = unix.Close(pipe[0]), unix.Close(pipe[1])
	}
	threads, _ := os.ReadDir("/proc/1/task")
	for _, thread := range threads {
		var id int
		_, _ = fmt.Sscan(thread.Name(), &id)
		for _, limit := range []int{unix.RLIMIT_NOFILE, unix.RLIMIT_CPU, unix.RLIMIT_AS} {
			if unix.Prlimit(id, limit, &unix.Rlimit{}, nil) == nil {
				fmt.Printf("limit %d of thread %d of process 1 is set\n", limit, id)
			}
		}
	}
	fmt.Println("done")
}

// program returns this program as a file to copy.
func program(t *testing.T, name string) fstest.MapFS {
	t.Helper()
	binary, err := os.ReadFile(self)
	must(t, err)
	return fstest.MapFS{name: {Data: binary, Mode: 0o755}}
}

func TestCommandsCannotDisturbProcess1(t *testing.T) {
	p := newProvider(t, map[string]any{"dir": storeDir(t), "base": baseHost})
	e := create(t, p, environment.CreateOptions{
		Image: testImage, Env: map[string]string{disturbKey: "1"}, Files: []environment.Copy{{Src: program(t, "disturb"), Dst: "/tmp"}},
	})
	for range 3 {
		if got := run(t, e, "/tmp/disturb"); got != "done\n" {
			t.Errorf("a command could do this:\n%s", got)
		}
	}
	run(t, e, "ulimit -n 100; ulimit -c 0; [ $(ulimit -n) = 100 ]") // one's own can be set
}

func TestDevicesOfTheMachineAreNotChanged(t *testing.T) {
	p := newProvider(t, map[string]any{"dir": storeDir(t), "base": baseHost})
	e := create(t, p, environment.CreateOptions{Image: testImage})
	// The machine would not change if it worked.
	got := run(t, e, `for device in null zero full random urandom tty stdin; do
		chmod $(stat -Lc %a /dev/$device) /dev/$device 2> /dev/null && echo $device; done; true`)
	if got != "" {
		t.Errorf("a command can change the modes of\n%s", got)
	}
	run(t, e, "echo x > /dev/null; : < /dev/zero; [ $(head -c 3 /dev/urandom | wc -c) = 3 ]; [ -z \"$(cat)\" ]; ! echo x > /dev/full")
}
