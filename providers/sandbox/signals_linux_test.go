package sandbox

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/internal/core/environment"
)

// signalsKey makes this program ignore and block all signals and execute itself again with
// signalsIgnored, which makes it print the initial signal state of commands in sandboxes of the
// store that signalsKey names.
const (
	signalsKey     = "ROLLOUT_TEST_SIGNALS"
	signalsIgnored = "ROLLOUT_TEST_SIGNALS_IGNORED"
)

func init() { //nolint:gochecknoinits // TestMain is for all tests of the package
	switch dir, again := os.Getenv(signalsKey), os.Getenv(signalsIgnored); {
	case dir != "" && again == "":
		fmt.Println(ignoreAndBlock())
		os.Exit(1)
	case dir != "":
		Init()
		if err := showSignals(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// ignoreAndBlock ignores and blocks all signals, and executes this program again.
func ignoreAndBlock() error {
	runtime.LockOSThread()
	ignore := [4]uint64{1} // struct sigaction
	for s := uintptr(1); s <= 64; s++ {
		_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, s, uintptr(unsafe.Pointer(&ignore)), 0, 8, 0, 0)
		if errno != 0 && s != uintptr(unix.SIGKILL) && s != uintptr(unix.SIGSTOP) {
			return fmt.Errorf("ignore signal %d: %w", s, errno)
		}
	}
	all := unix.Sigset_t{}
	for i := range all.Val {
		all.Val[i]--
	}
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &all, nil); err != nil {
		return err
	}
	return syscall.Exec(self, os.Args, append(os.Environ(), signalsIgnored+"=1"))
}

// showSignals prints the initial signal state of this process, a command in a sandbox, an
// ENTRYPOINT and a step of a build.
func showSignals(dir string) error {
	ctx := context.Background()
	p, err := New(ctx, map[string]any{"dir": dir, "base": baseHost}, Options{})
	if err != nil {
		return err
	}
	own, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	fmt.Println("rollout:", strings.Join(strings.Fields(strings.Join(signalLines(string(own)), " ")), " "))
	ref, err := p.BuildImage(ctx, environment.BuildOptions{Name: "signals", Context: fstest.MapFS{"Dockerfile": {Data: []byte(
		"FROM " + testImage + "\nRUN grep -e SigBlk -e SigIgn /proc/self/status > /step\n" +
			`ENTRYPOINT ["bash", "-c", "grep -e SigBlk -e SigIgn /proc/self/status > /entry; exec \"$@\"", "entry"]` + "\n")}}})
	if err != nil {
		return err
	}
	e, err := p.CreateEnvironment(ctx, environment.CreateOptions{Image: ref})
	if err != nil {
		return err
	}
	for what, script := range map[string]string{
		"step": "cat /step", "entry": "cat /entry", "command": "grep -e SigBlk -e SigIgn /proc/self/status",
		"killed": "exec 2>/dev/null; sleep 1000 & kill -34 $!; wait $!; echo $?",
	} {
		var out strings.Builder
		code, err := e.Exec(ctx, script, environment.ExecOptions{Stdout: &out, Stderr: &out})
		if err != nil || code != 0 {
			return fmt.Errorf("exit code %d, error %w: %s", code, err, &out)
		}
		fmt.Println(what+":", strings.Join(strings.Fields(out.String()), " "))
	}
	return e.Destroy(ctx)
}

func signalLines(status string) []string {
	return slices.DeleteFunc(strings.Split(status, "\n"), func(line string) bool {
		return !strings.HasPrefix(line, "SigBlk") && !strings.HasPrefix(line, "SigIgn")
	})
}

// No signal is ignored or blocked in commands, even if it is in Rollout (nohup ignores SIGHUP).
func TestCommandsStartWithDefaultSignals(t *testing.T) {
	dir := storeDir(t)
	newProvider(t, map[string]any{"dir": dir, "base": baseHost}) // or the test is skipped
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), signalsKey+"="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got := string(out)
	const none = "SigBlk: 0000000000000000 SigIgn: 0000000000000000\n"
	if strings.Contains(got, "rollout: "+none) {
		t.Fatalf("nothing is ignored or blocked where Rollout starts:\n%s", got)
	}
	for _, what := range []string{"step: " + none, "entry: " + none, "command: " + none, "killed: 162\n"} {
		if !strings.Contains(got, what) {
			t.Errorf("missing %q", what)
		}
	}
	if t.Failed() {
		t.Logf("got\n%s", got)
	}
}
