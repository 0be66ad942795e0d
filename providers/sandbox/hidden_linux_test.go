package sandbox

import (
	"bytes"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/test/testenv"
)

// secret is set in the environment of this process, and must not appear in sandboxes.
const secret = "ROLLOUT_TEST_SECRET_7d1f"

func TestMachinesPrivateFilesAreHidden(t *testing.T) {
	t.Setenv(secret, secret+"_value")
	private := t.TempDir() // hidden like tasks, datasets and jobs
	must(t, os.WriteFile(filepath.Join(private, secret), []byte("a solution"), 0o644))
	must(t, os.Chmod(private, 0o755))
	inherited, err := os.Open(filepath.Join(private, secret))
	must(t, err)
	defer inherited.Close()
	shown := shownHostDirs(t)
	dir := storeDir(t)
	for _, scratch := range choices["scratch"] {
		t.Run("scratch "+scratch, func(t *testing.T) {
			p, err := New(t.Context(), map[string]any{"dir": dir, "base": baseHost, "scratch": scratch}, Options{Hide: []string{private, shown[0], shown[1]}})
			testenv.Check(t, Name, err)
			isHidden(t, p, dir, private, shown)
		})
	}
}

func isHidden(t *testing.T, p environment.Provider, dir, private string, shown []string) {
	t.Helper()
	e := create(t, p, environment.CreateOptions{Image: testImage, Labels: environment.Labels{Job: "hidden"}})

	for _, path := range []string{
		private, dir, "/tests", "/oracle", "/var/lib/docker", "/var/lib/containerd", "/run/docker.sock", "/var/run/docker.sock", "/run/containerd",
		"/run/dbus", "/root/.ssh", "/root/.docker", "/etc/docker", "/home/*", "/root/.[a-z]*", "/srv/*", "/mnt/*", "/media/*", "/tmp/*", "/var/tmp/*",
		"/var/lib/docker/*", "/work", "/dev/mem", "/dev/kmsg", "/dev/kvm", "/dev/vda", "/dev/sda", "/boot/*", shown[0], shown[1],
	} {
		if got := run(t, e, "ls -d "+path+" 2> /dev/null || true"); got != "" {
			t.Errorf("%s is seen: %s", path, got)
		}
	}
	if got := run(t, e, "ls "+shown[2]+" && mkdir "+shown[0]+" && touch "+shown[0]+"/new && ls "+shown[0]); !strings.HasSuffix(got, "new\n") {
		t.Errorf("in %s and a new %s there is\n%s", shown[2], shown[0], got)
	}
	for what, script := range map[string]string{
		"files of tasks and jobs":    "find / -name '" + secret + "*' -not -path '/proc/*' 2> /dev/null || true",
		"this process's environment": "env; cat /proc/*/environ 2> /dev/null | tr '\\0' '\\n'",
		"open files":                 "ls -l /proc/self/fd /proc/*/fd 2> /dev/null || true",
		"where the store is":         "cat /proc/*/mountinfo /proc/*/maps /proc/*/cmdline 2> /dev/null | tr '\\0' '\\n'",
		"sockets of the machine":     "find / -type s -not -path '/proc/*' 2> /dev/null || true",
		"passwords":                  "cut -d: -f2 /etc/shadow /etc/gshadow | sort -u",
	} {
		got := run(t, e, script)
		for _, mark := range []string{secret, filepath.Base(dir), filepath.Base(filepath.Dir(private)), ".sock", "$y$", "$6$", "keyring"} {
			if strings.Contains(got, mark) {
				t.Errorf("%s: %q is seen in\n%.3000s", what, mark, got)
			}
		}
	}
	if got := run(t, e, "ls /proc/self/fd | wc -l"); got != "4\n" { // one is ls's own
		t.Errorf("%s files are open: %s", strings.TrimSpace(got), run(t, e, "ls -l /proc/self/fd"))
	}
	if got := run(t, e, "ls -d /proc/[0-9]* | wc -l"); len(got) > 2 {
		t.Errorf("%s processes are seen:\n%s", strings.TrimSpace(got), run(t, e, "ps ax || true"))
	}
	if got := run(t, e, "kill -0 "+strconv.Itoa(os.Getpid())+" 2>&1 || true"); !strings.Contains(got, "No such process") {
		t.Errorf("this process can be reached: %s", got)
	}
}

// A logged-in user has keys: in the user's keyring, and in the session's.
func TestKeysAreNotSeen(t *testing.T) {
	runtime.LockOSThread() // the keyrings are a thread's
	defer runtime.UnlockOSThread()
	for _, ring := range []int{unix.KEY_SPEC_USER_KEYRING, unix.KEY_SPEC_SESSION_KEYRING} {
		key, err := unix.AddKey("user", secret+"_key", []byte("secret"), ring)
		if err != nil {
			testenv.Lacks(t, "keys", "a kernel that takes keys: "+err.Error())
		}
		defer unix.KeyctlInt(unix.KEYCTL_UNLINK, key, ring, 0, 0)
	}
	if mine, err := os.ReadFile("/proc/keys"); err != nil || !strings.Contains(string(mine), secret) {
		testenv.Lacks(t, "keys", fmt.Sprintf("a kernel that lists keys: %v, %s", err, mine))
	}
	e := create(t, newProvider(t, map[string]any{"dir": storeDir(t), "base": baseHost}), environment.CreateOptions{Image: testImage})
	if got := run(t, e, "cat /proc/keys /proc/key-users"); got != "" {
		t.Errorf("keys are seen:\n%s", got)
	}
	if got := run(t, e, "umount /proc/keys 2>/dev/null; umount /proc/key-users 2>/dev/null; cat /proc/keys /proc/key-users"); got != "" {
		t.Errorf("keys can be uncovered:\n%s", got)
	}
}

// shownHostDirs returns three directories of the machine that sandboxes show unless they are
// hidden.
func shownHostDirs(t *testing.T) []string {
	t.Helper()
	dirs, err := filepath.Glob("/usr/share/*")
	must(t, err)
	dirs = slices.DeleteFunc(dirs, func(path string) bool {
		info, err := os.Lstat(path)
		return err != nil || !info.IsDir() || !worldReadable(info)
	})
	if len(dirs) < 3 {
		testenv.Lacks(t, Name, fmt.Sprintf("three directories in /usr/share: there are only %q", dirs))
	}
	return dirs[:3]
}

func TestTestsAndSolutionsAreHiddenUntilCopied(t *testing.T) {
	p := newProvider(t, map[string]any{"dir": storeDir(t), "base": baseHost})
	e := create(t, p, environment.CreateOptions{Image: testImage})
	if got := run(t, e, "cat /tests/test.sh /oracle/solve.sh 2> /dev/null || echo nothing"); got != "nothing\n" {
		t.Errorf("before they are copied there is %q", got)
	}
	must(t, e.CopyTo(t.Context(), environment.Copy{Src: fstest.MapFS{"test.sh": {Data: []byte("due")}}, Dst: "/tests", Clean: true}))
	if got := run(t, e, "cat /tests/test.sh"); got != "due" {
		t.Errorf("after they are copied there is %q", got)
	}
	other := create(t, p, environment.CreateOptions{Image: testImage})
	if got := run(t, other, "ls / | grep -c tests || true"); got != "0\n" {
		t.Error("another environment has them, too")
	}
}

// TestFilesOfRootAreHidden reruns itself in a mount namespace, where the machine has files that
// only root may read.
func TestFilesOfRootAreHidden(t *testing.T) {
	testenv.NeedRoot(t, "whose files these are")
	if os.Getenv(secret) == "" {
		again := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.v")
		again.Env = append(os.Environ(), secret+"=here")
		again.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
		out, err := again.CombinedOutput()
		if err != nil || bytes.Contains(out, []byte("--- SKIP")) {
			t.Errorf("%v:\n%s", err, out)
		}
		return
	}
	for _, dir := range []string{"/opt", "/usr/src", "/mnt"} {
		must(t, os.MkdirAll(dir, 0o755))
		must(t, syscall.Mount("test", dir, "tmpfs", 0, "mode=755"))
		plant := func(name string, mode fs.FileMode) {
			must(t, os.MkdirAll(filepath.Join(dir, "tool", "deep"), 0o755))
			must(t, os.WriteFile(filepath.Join(dir, "tool", name), []byte(secret), mode))
		}
		plant("public", 0o755)
		plant("private", 0o600)
		plant("groups", 0o640)
		plant("deep/private", 0o700)
		must(t, os.MkdirAll(filepath.Join(dir, "closed", "deep"), 0o700))
		must(t, os.WriteFile(filepath.Join(dir, "closed", "deep", "public"), []byte(secret), 0o644))
		listener, err := net.Listen("unix", filepath.Join(dir, "tool", "socket"))
		must(t, err)
		defer listener.Close()
	}
	p := newProvider(t, map[string]any{"dir": storeDir(t), "base": baseHost})
	e := create(t, p, environment.CreateOptions{Image: testImage})
	got := run(t, e, "grep -rl "+secret+" /opt/tool/ /usr/src /opt /.host /mnt /etc /root /home 2> /dev/null | sort -u")
	if want := "/.host/opt/tool/public\n/opt/tool/public\n/usr/src/tool/public\n"; got != want {
		t.Errorf("seen are\n%swant\n%s", got, want)
	}
	if got := run(t, e, "find /opt/ /.host /usr/src -name socket -o -name private -o -name closed"); got != "" {
		t.Errorf("seen are\n%s", got)
	}
	// Links and files next to a directory that was split because of a mount in it.
	links, err := filepath.Glob("/usr/*")
	must(t, err)
	for _, path := range links {
		run(t, e, "[ -e "+path+" ] || [ -L "+path+" ] || { echo "+path+" is missing; false; }")
	}
	if visible := machineSecrets(t, e); len(visible) > 0 {
		t.Errorf("files of the machine that only root or a group may read are seen: %s", strings.Join(visible, "\n"))
	}
}

// machineSecrets returns the private files of this machine that an environment can read.
func machineSecrets(t *testing.T, e environment.Environment) []string {
	t.Helper()
	var paths bytes.Buffer
	for _, top := range []string{"/usr", "/etc"} {
		must(t, filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return nil //nolint:nilerr // gone meanwhile
			}
			info, err := entry.Info()
			if err == nil && !worldReadable(info) && !slices.Contains([]string{"/etc/shadow", "/etc/gshadow"}, path) && info.Size() > 0 && !info.IsDir() {
				fmt.Fprintf(&paths, "%s\n", path)
			}
			return nil
		}))
	}
	var out bytes.Buffer
	code, err := e.Exec(t.Context(), `while read -r path; do [ ! -s "$path" ] || echo "$path"; done`, environment.ExecOptions{Stdin: &paths, Stdout: &out})
	if err != nil || code != 0 {
		t.Fatalf("exit code %d, error %v", code, err)
	}
	return strings.Fields(out.String())
}
