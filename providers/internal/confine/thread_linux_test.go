package confine

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/internal/test/testenv"
)

// statusOf returns the fields of /proc/self/status that a program printed.
func statusOf(r result) map[string]string {
	status := map[string]string{}
	for line := range strings.Lines(r.stdout) {
		key, value, _ := strings.Cut(line, ":")
		status[key] = strings.TrimSpace(value)
	}
	return status
}

func TestCapabilitiesAreDockersDefault(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		// The thread starts out with all capabilities inheritable and ambient.
		r := p.run(t, "privilege", plan{Commands: [][]string{{"cat", "/proc/self/status"}}})
		status := statusOf(r)
		for key, want := range map[string]string{
			"CapBnd": "00000000a80425fb", "CapEff": "00000000a80425fb", "CapPrm": "00000000a80425fb",
			"CapInh": "0000000000000000", "CapAmb": "0000000000000000",
			"NoNewPrivs": "0", "Seccomp": "2",
		} {
			if status[key] != want {
				t.Errorf("%s is %q, want %q\n%s", key, status[key], want, r.stderr)
			}
		}
	})
}

// TestOtherThreadsKeepTheirRights calls Thread in this process, on a thread that ends with its
// goroutine.
func TestOtherThreadsKeepTheirRights(t *testing.T) {
	if os.Geteuid() != 0 {
		r := (place{"", true}).run(t, "confine", plan{Free: true, Commands: [][]string{
			{"/proc/self/exe", "-test.run=^TestOtherThreadsKeepTheirRights$", "-test.v"}}})
		if r.code != 0 || !strings.Contains(r.stdout, "--- PASS: TestOtherThreadsKeepTheirRights") {
			t.Errorf("in a user namespace: exit code %d\n%s%s", r.code, r.stdout, r.stderr)
		}
		return
	}
	before := rightsOfOthers(t)
	done := make(chan error)
	stay := make(chan struct{})
	go onItsOwnThread(done, stay)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	defer close(stay)
	if after := rightsOfOthers(t); after != before {
		t.Errorf("after Thread on another thread: %s, before: %s", after, before)
	}
}

func TestSetuidProgramsRaiseRights(t *testing.T) {
	testenv.NeedRoot(t, "to make a program setuid")
	p := places()[0]
	dir := p.writableDir(t)
	id, err := exec.LookPath("id")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "id")
	if out, err := exec.Command("cp", "-L", id, program).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.Chmod(program, os.ModeSetuid|0o755); err != nil {
		t.Fatal(err)
	}
	what := plan{Commands: [][]string{{program, "-u"}}, UID: nobody, Free: true}
	p.run(t, "confine", what).want(t, "0\n")
	what.Free = false
	p.run(t, "confine", what).want(t, "0\n")
}

func TestSuChangesTheUser(t *testing.T) {
	testenv.NeedRoot(t, "which has more users than one")
	p := places()[0]
	p.confined(t, Options{}, "su", userName(t, strconv.Itoa(nobody)), "-s", "/bin/sh", "-c", "id -u").want(t, "65534\n")
}

func TestShellsAndThreadsWork(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		p.confined(t, Options{}, "bash", "-c", `for i in 1 2 3; do (exit $i) & wait $! || echo $?; done; cat <(echo sub)`).
			want(t, "1\n2\n3\nsub\n")
	})
}

// TestThreadsOfTheCLibraryWork matters because it asks for clone3 first.
func TestThreadsOfTheCLibraryWork(t *testing.T) {
	python, err := exec.LookPath("/usr/bin/python3")
	if err != nil {
		testenv.Lacks(t, "python3", err.Error())
	}
	everywhere(t, func(t *testing.T, p place) {
		p.confined(t, Options{}, python, "-c", `
import threading, subprocess
seen = []
threads = [threading.Thread(target=seen.append, args=(i,)) for i in range(8)]
for t in threads: t.start()
for t in threads: t.join()
print(sorted(seen), subprocess.run(["true"]).returncode)`).want(t, "[0, 1, 2, 3, 4, 5, 6, 7] 0\n")
	})
}

func TestTracingWorks(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		p.confined(t, Options{}, "role:trace").want(t, "traced\n")
		// Siblings are in one Landlock domain, so they may look into each other.
		p.confined(t, Options{}, "bash", "-c",
			`sleep 300 & until [[ $(readlink /proc/$!/exe) == *sleep* || $(readlink /proc/$!/exe) == *coreutils* ]]; do :; done; kill $!`).
			want(t, "")
	})
}

// tryTrace traces a child that it starts.
func tryTrace([]string) error {
	cmd := exec.Command("true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	var status unix.WaitStatus
	if _, err := unix.Wait4(cmd.Process.Pid, &status, 0, nil); err != nil {
		return err
	}
	if !status.Stopped() {
		return os.ErrInvalid
	}
	if err := unix.PtraceDetach(cmd.Process.Pid); err != nil {
		return err
	}
	os.Stdout.WriteString("traced\n")
	return cmd.Wait()
}

func TestMissingCapabilitiesAreNamed(t *testing.T) {
	cmd := exec.Command("/proc/self/exe", `{"Commands":[["true"]]}`)
	cmd.Env = []string{roleVariable + "=confine"}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody, NoSetGroups: true}}
	}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "CAP_SETPCAP is needed") {
		t.Errorf("an ordinary user: error %v, said %q", err, out)
	}
	everywhere(t, func(t *testing.T, p place) {
		r := p.run(t, "noadmin", plan{Commands: [][]string{{"true"}}})
		if r.code == 0 || !strings.Contains(r.stderr, "CAP_SYS_ADMIN in the user namespace is needed") {
			t.Errorf("without CAP_SYS_ADMIN: exit code %d, said %q", r.code, r.stderr)
		}
	})
}
