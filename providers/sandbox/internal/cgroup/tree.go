package cgroup

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"syscall"
)

// Tree holds the places in which this process may make groups. Its methods may be called
// concurrently, and many processes may use one top group.
type Tree struct {
	files   files
	top     string           // the name of the top group
	places  map[string]place // by the name of the limit
	missing map[string]string
}

// place is an existing group in which the top group can be made.
type place struct {
	base        string
	unified     bool
	controllers []string // enabled for the top group's children; only version 2
}

// process is the calling process.
type process struct {
	pid  int
	root bool
	own  map[string]string // see parseOwn
}

// Open finds out which limits this process may set, for groups in a top group of the given name. It
// leaves nothing behind, except with version 2: controllers stay enabled in the groups above, and
// if the process is alone in a group that was delegated to it, Open moves it to a child called top
// + "-self", because no group may both contain processes and limit its children. Open returns an
// error only if /proc cannot be read. Limits that cannot be set show in New.
func Open(top string) (*Tree, error) {
	if !validName(top) {
		return nil, fmt.Errorf("%q cannot name a cgroup: use letters, digits, _ and -", top)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("find cgroups: %w", err)
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a kernel without cgroups has no such file
		return nil, fmt.Errorf("find this process's cgroup: %w", err)
	}
	self := process{pid: os.Getpid(), root: os.Geteuid() == 0, own: parseOwn(string(own))}
	return open(kernelFiles{}, top, parseMounts(string(mounts)), self), nil
}

func open(f files, top string, mounts []mount, self process) *Tree {
	t := &Tree{files: f, top: top, places: make(map[string]place), missing: make(map[string]string)}
	for _, l := range limits {
		t.missing[l.name] = fmt.Sprintf("the kernel's %s controller is not there, or not mounted as a cgroup", l.controller)
		t.openSplit(l, mounts, self)
	}
	t.openUnified(mounts, self)
	for name := range t.places {
		delete(t.missing, name)
	}
	return t
}

// Missing returns the limits that cannot be set, each with a readable reason.
func (t *Tree) Missing() map[string]string { return maps.Clone(t.missing) }

// noteMissing records why a limit cannot be set at base.
func (t *Tree) noteMissing(name, base string, self process, unified bool, err error) {
	t.missing[name] = reason(err, base, self.root, unified)
}

func reason(err error, base string, root, unified bool) string {
	switch {
	case errors.Is(err, syscall.EROFS):
		return fmt.Sprintf("no cgroup may be made: %s is mounted read-only (in a container, have it mounted writable)", base)
	case errors.Is(err, fs.ErrPermission) && !root && unified:
		return "no cgroup may be made: not root, and none is delegated " +
			"(run as root, or under systemd-run --user --scope -p Delegate=yes)"
	case errors.Is(err, fs.ErrPermission) && !root:
		return "no cgroup may be made: not root, and none is delegated (run as root)"
	case gone(err):
		return "this kernel's cgroups have no such limit: " + err.Error()
	case errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf("no cgroup may be made in %s, although this is root (in a container, it must be granted)", base)
	}
	return "no cgroup can be used: " + err.Error()
}

// tryBase creates the top group in base, calls check, and removes the group if it is empty. Another
// process may remove the group, too, so tryBase tries again while something does not exist.
func (t *Tree) tryBase(base string, check func(top string) error) error {
	top := filepath.Join(base, t.top)
	var err error
	for range attempts {
		err = t.files.mkdir(top)
		if errors.Is(err, fs.ErrExist) {
			err = t.checkTop(top)
		}
		if err == nil {
			err = check(top)
			t.files.rmdir(top) //nolint:errcheck // another process's groups may be in it
		}
		if !gone(err) {
			break
		}
	}
	return err
}

// checkTop returns an error if no groups may be made in an existing top group, which may belong to
// another user.
func (t *Tree) checkTop(top string) error {
	probe := filepath.Join(top, "probe-"+rand.Text())
	if err := t.files.mkdir(probe); err != nil {
		return err
	}
	return t.files.rmdir(probe)
}

// validName reports whether a group may have this name. Dots are reserved for control files.
func validName(name string) bool {
	for _, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return name != "" && len(name) <= 200
}
