package confine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// The test binary runs itself: as the process whose thread is confined, and as the programs in it.
const roleVariable = "CONFINE_TEST_ROLE"

func TestMain(m *testing.M) {
	role := os.Getenv(roleVariable)
	if role == "" {
		os.Exit(m.Run())
	}
	os.Unsetenv(roleVariable)
	// Rights belong to threads.
	runtime.LockOSThread()
	run, ok := roles[role]
	if !ok {
		fmt.Fprintf(os.Stderr, "no role %q\n", role)
		os.Exit(125)
	}
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

var roles map[string]func(args []string) error

func init() { // the table's functions run others of it
	roles = map[string]func(args []string) error{
		"confine":   confine,
		"calls":     tryCalls,
		"ids":       tryIDs,
		"clone":     tryClone,
		"refer":     tryRefer,
		"trace":     tryTrace,
		"listen":    listenAbstract,
		"connect":   connectAbstract,
		"addkey":    addKeyAnd,
		"privilege": inheritAnd,
		"noadmin":   withoutAdminAnd,
	}
}

// plan is what the confined process does.
type plan struct {
	Options  Options
	Free     bool       // run the commands without Thread, for comparison
	Commands [][]string // started in this order, each when the one before has printed a line or ended
	UID      int        // of the commands
}

// confine restricts its thread and runs commands from it; the last one's exit code is its own.
func confine(args []string) error {
	var p plan
	if err := json.Unmarshal([]byte(args[0]), &p); err != nil {
		return err
	}
	if !p.Free {
		notes, err := Thread(p.Options)
		if err != nil {
			return err
		}
		for _, note := range notes {
			fmt.Fprintln(os.Stderr, "note:", note)
		}
	}
	var last *exec.Cmd
	for i, argv := range p.Commands {
		last = command(argv)
		last.SysProcAttr = &syscall.SysProcAttr{}
		if p.UID != 0 {
			last.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(p.UID), Gid: uint32(p.UID), NoSetGroups: true}
		}
		if i == len(p.Commands)-1 {
			last.Stdout = os.Stdout
			break
		}
		out, err := last.StdoutPipe()
		if err != nil {
			return err
		}
		if err := last.Start(); err != nil {
			return err
		}
		defer last.Process.Kill()
		if _, err := out.Read(make([]byte, 100)); err != nil {
			return fmt.Errorf("%q prints nothing: %w", argv, err)
		}
	}
	return last.Run()
}

// command runs a program, or, if the first word is "role:x", this binary in another role.
func command(argv []string) *exec.Cmd {
	name, isRole := strings.CutPrefix(argv[0], "role:")
	if !isRole {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Stderr = os.Stderr
		return cmd
	}
	cmd := exec.Command("/proc/self/exe", argv[1:]...)
	cmd.Env = append(os.Environ(), roleVariable+"="+name)
	cmd.Stderr = os.Stderr
	return cmd
}

// place is a kind of process that Thread is called in.
type place struct {
	name string
	// single is a user namespace in which only user 0 is mapped, made by an ordinary user.
	single bool
}

// places returns the places that this machine has: real root only for root.
func places() []place {
	single := place{"as the only user of a user namespace", true}
	if os.Geteuid() == 0 {
		return []place{{"as root", false}, single}
	}
	return []place{single}
}

const nobody = 65534

// attr makes a process run in the place. Root becomes an ordinary user first.
func (p place) attr() *syscall.SysProcAttr {
	if !p.single {
		return &syscall.SysProcAttr{}
	}
	uid, gid := os.Geteuid(), os.Getegid()
	attr := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}
	if uid == 0 {
		uid, gid = nobody, nobody
		attr.Credential = &syscall.Credential{Uid: 0, Gid: 0, NoSetGroups: true}
	}
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: gid, Size: 1}}
	return attr
}

// result is how a plan ended.
type result struct {
	stdout, stderr string
	code           int
}

// run carries out the plan in the place, by way of the role named, "confine" or one that ends in
// it.
func (p place) run(t *testing.T, role string, what plan) result {
	t.Helper()
	encoded, err := json.Marshal(what)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", string(encoded))
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", roleVariable + "=" + role,
		"GORACE=atexit_sleep_ms=0"} // the race detector's second would be the whole time of a test
	cmd.SysProcAttr = p.attr()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatalf("%s: %v", p.name, err)
	}
	return result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// confined runs one command after Thread.
func (p place) confined(t *testing.T, o Options, argv ...string) result {
	t.Helper()
	return p.run(t, "confine", plan{Options: o, Commands: [][]string{argv}})
}

// free runs one command without Thread.
func (p place) free(t *testing.T, argv ...string) result {
	t.Helper()
	return p.run(t, "confine", plan{Free: true, Commands: [][]string{argv}})
}

// everywhere runs a subtest in each place.
func everywhere(t *testing.T, check func(t *testing.T, p place)) {
	t.Helper()
	for _, p := range places() {
		t.Run(p.name, func(t *testing.T) { check(t, p) })
	}
}

// want fails the test unless the command printed out and succeeded.
func (r result) want(t *testing.T, out string) {
	t.Helper()
	if r.code != 0 || r.stdout != out {
		t.Errorf("exit code %d, printed %q; want 0 and %q\n%s", r.code, r.stdout, out, r.stderr)
	}
}

// writableDir returns a world-writable directory. It belongs to the place's user if that is single.
func (p place) writableDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "confine")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if p.single && os.Geteuid() == 0 {
		if err := os.Chown(dir, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func userName(t *testing.T, uid string) string {
	t.Helper()
	u, err := user.LookupId(uid)
	if err != nil {
		t.Fatal(err)
	}
	return u.Username
}
