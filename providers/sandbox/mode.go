//go:build linux

package sandbox

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// mode is the set of privileges with which sandboxes are made. It is also the name of the store's
// directory, because a mode cannot use files that another one stored.
type mode string

const (
	modeRoot mode = "root" // as real root, without a user namespace
	// modeIDs: in a user namespace with as many ids as a system has, which newuidmap grants from
	// /etc/subuid.
	modeIDs mode = "ids"
	// modeOne: in a user namespace with one id. Root is the only user there.
	modeOne mode = "one"
)

// manyIDs is the number of ids that modeIDs needs: the user nobody has the id 65534.
const manyIDs = 65536

// usesUserNamespace reports whether sandboxes have a user namespace.
func (m mode) usesUserNamespace() bool { return m != modeRoot }

// lacksUser reports whether a user does not exist because sandboxes have only one id.
func (m mode) lacksUser(user string) bool {
	return m == modeOne && !slices.Contains([]string{"", "root", "0", "0:0", "root:root"}, user)
}

// xattr returns the namespace of overlayfs's extended attributes.
func (m mode) xattr() string {
	if m.usesUserNamespace() {
		return "user"
	}
	return "trusted"
}

// subordinate ranges of this user, as newuidmap takes them; see findMode.
var subordinate struct{ uid, gid idRange }

type idRange struct{ start, count int }

// findMode returns the most privileged mode available to this process. network is the
// configuration's: with the machine's network, root does not need the capability to make one.
func findMode(network string) mode {
	needed := []int{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN}
	if network == networkHost {
		needed = needed[:1]
	}
	if os.Geteuid() == 0 && hasCapabilities(needed...) {
		return modeRoot
	}
	if findSubordinate() {
		return modeIDs
	}
	return modeOne
}

// hasCapabilities reports whether this process has capabilities. Root in a container may lack them.
func hasCapabilities(capabilities ...int) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&header, &data[0]) != nil {
		return false
	}
	return !slices.ContainsFunc(capabilities, func(c int) bool { return data[c/32].Effective&(1<<(c%32)) == 0 })
}

func findSubordinate() bool {
	for _, program := range []string{"newuidmap", "newgidmap"} {
		if _, err := exec.LookPath(program); err != nil {
			return false
		}
	}
	names := []string{strconv.Itoa(os.Getuid())}
	if u, err := user.LookupId(names[0]); err == nil {
		names = append(names, u.Username)
	}
	uid, ok1 := readSubordinate("/etc/subuid", names)
	gid, ok2 := readSubordinate("/etc/subgid", names)
	subordinate.uid, subordinate.gid = uid, gid
	return ok1 && ok2
}

// readSubordinate returns the first range in a file that is long enough. Source: subuid(5).
func readSubordinate(path string, names []string) (idRange, bool) {
	f, err := os.Open(path)
	if err != nil {
		return idRange{}, false
	}
	defer f.Close()
	for scanner := bufio.NewScanner(f); scanner.Scan(); {
		fields := strings.Split(scanner.Text(), ":")
		if len(fields) != 3 || !slices.Contains(names, fields[0]) {
			continue
		}
		start, err1 := strconv.Atoi(fields[1])
		count, err2 := strconv.Atoi(fields[2])
		if err1 == nil && err2 == nil && count >= manyIDs {
			return idRange{start, manyIDs}, true
		}
	}
	return idRange{}, false
}

// firstFile is the file descriptor of the first of a command's ExtraFiles in the new process.
const firstFile = 3

// command returns a command that starts this program in a role, with the mode's ids and with open
// files from firstFile on. The caller must call release when the process runs or could not be
// started: where another process sets the ids, the process waits for them in the role waiting.
func (m mode) command(role, waiting string, files ...*os.File) (cmd *exec.Cmd, release func(pid int) error, err error) {
	cmd = exec.Command(self) //nolint:noctx // its life is not that of a context: see initclient.Client.End
	cmd.Args, cmd.ExtraFiles = []string{role}, slices.Clone(files)
	// Only settings of Go's runtime: this process's environment is not passed on.
	cmd.Env = []string{"GOMAXPROCS=2", "GOGC=50", "GOTRACEBACK=single"}
	// A separate session: Ctrl-C goes to this process only, which decides what to end.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
	nothing := func(int) error { return nil }
	defer func() {
		if program := sealedProgram(); program != nil && err == nil {
			cmd.Path = fmt.Sprintf("/proc/self/fd/%d", firstFile+len(cmd.ExtraFiles)) // of the new process
			cmd.ExtraFiles = append(cmd.ExtraFiles, program)
		}
	}()
	switch m {
	case modeRoot:
		return cmd, nothing, nil
	case modeOne:
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
		return cmd, nothing, nil
	}
	wait, proceed, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	cmd.Args = []string{waiting, strconv.Itoa(firstFile + len(files))}
	cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
	cmd.ExtraFiles = append(cmd.ExtraFiles, wait)
	return cmd, func(pid int) error {
		defer proceed.Close()
		defer wait.Close()
		if pid == 0 {
			return nil
		}
		return mapIDs(pid)
	}, nil
}

// mapIDs sets the ids of a process in a user namespace.
func mapIDs(pid int) error {
	for _, m := range []struct {
		program string
		own     int
		more    idRange
	}{
		{"newuidmap", os.Geteuid(), subordinate.uid},
		{"newgidmap", os.Getegid(), subordinate.gid},
	} {
		args := []string{strconv.Itoa(pid), "0", strconv.Itoa(m.own), "1", "1", strconv.Itoa(m.more.start), strconv.Itoa(m.more.count)}
		if out, err := exec.Command(m.program, args...).CombinedOutput(); err != nil { //nolint:noctx // takes milliseconds
			return fmt.Errorf("%s: %w: %s", m.program, err, strings.TrimSpace(string(out)))
		}
	}
	return nil
}
