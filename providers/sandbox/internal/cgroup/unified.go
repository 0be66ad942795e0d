package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// openUnified looks in the hierarchy of version 2 for one place for all limits whose controllers
// are not in version 1: a process can be in one group of that hierarchy only. The hierarchy may be
// mounted more than once.
func (t *Tree) openUnified(mounts []mount, self process) {
	wanted := unifiedLimits(mounts)
	for _, m := range mounts {
		if !m.unified || len(wanted) == 0 {
			continue
		}
		for _, base := range candidateDirs(m, self.own[""], t.leaf()) {
			if t.openUnifiedAt(base, wanted, self) {
				return
			}
		}
	}
}

// openUnifiedAt tries base and reports whether any limit can be set in it.
func (t *Tree) openUnifiedAt(base string, wanted []limit, self process) bool {
	var granted []string
	err := t.tryBase(base, func(top string) error {
		var err error
		granted, err = t.delegate(base, top, wanted, self)
		return err
	})
	if err != nil {
		granted = nil
	}
	for _, l := range wanted {
		switch {
		case err != nil:
			t.noteMissing(l.name, base, self, true, err)
		case slices.Contains(granted, l.controller):
			t.places[l.name] = place{base: base, unified: true, controllers: granted}
		default:
			t.missing[l.name] = fmt.Sprintf("the cgroup %s is not given the kernel's %s controller", base, l.controller)
		}
	}
	return len(granted) > 0
}

// unifiedLimits returns the limits whose controllers no hierarchy of version 1 has. The kernel has
// each controller in one hierarchy, so the other limits are not available in version 2, and the
// reason found in version 1 remains.
func unifiedLimits(mounts []mount) []limit {
	return slices.DeleteFunc(slices.Clone(limits), func(l limit) bool {
		return slices.ContainsFunc(mounts, func(m mount) bool { return slices.Contains(m.controllers, l.controller) })
	})
}

func (t *Tree) leaf() string { return t.top + "-self" }

// delegate enables controllers for the children of base and of top. It returns the controllers that
// top's children can have.
func (t *Tree) delegate(base, top string, wanted []limit, self process) ([]string, error) {
	var names []string
	available := readWords(t.files, filepath.Join(base, "cgroup.controllers"))
	for _, l := range wanted {
		if slices.Contains(available, l.controller) {
			names = append(names, l.controller)
		}
	}
	if err := t.enableBelow(base, names, self); err != nil {
		return nil, err
	}
	disabled := t.disabled(base, names)
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(disabled, name) })
	// The top group's final controllers are not checked: another process may just have recreated
	// it. See Tree.set.
	return names, t.enable(top, names)
}

// enableBelow enables controllers for the children of base. It first moves this process out of base
// if the kernel demands that.
func (t *Tree) enableBelow(base string, names []string, self process) error {
	if len(t.disabled(base, names)) == 0 {
		return nil
	}
	comeBack, err := t.moveOut(base, self)
	if err != nil {
		return err
	}
	if err := t.enable(base, names); err != nil {
		comeBack()
		return err
	}
	return nil
}

// moveOut moves this process to a child of base, because only the root group may both contain
// processes and enable controllers for its children. It does not rely on the kernel's refusal:
// without memory among the controllers the kernel accepts, but the children cannot be used. Other
// processes must not be moved.
func (t *Tree) moveOut(base string, self process) (comeBack func(), err error) {
	stay := func() {}
	if _, err := t.files.read(filepath.Join(base, "cgroup.type")); errors.Is(err, fs.ErrNotExist) {
		return stay, nil // only the real root has no type, and it may hold processes
	}
	procs, pid := filepath.Join(base, "cgroup.procs"), strconv.Itoa(self.pid)
	inside := readWords(t.files, procs)
	if len(inside) == 0 {
		return stay, nil
	}
	if !slices.Equal(inside, []string{pid}) {
		return nil, fmt.Errorf("other processes are in %s, and a cgroup that holds processes cannot limit its children "+
			"(start rollout as the only process of a delegated cgroup)", base)
	}
	leaf := filepath.Join(base, t.leaf())
	if err := t.files.mkdir(leaf); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if err := t.files.write(filepath.Join(leaf, "cgroup.procs"), pid); err != nil {
		t.files.rmdir(leaf) //nolint:errcheck // the first error is the one to tell
		return nil, err
	}
	return func() {
		if t.files.write(procs, pid) == nil {
			t.files.rmdir(leaf) //nolint:errcheck // an empty group does no harm
		}
	}, nil
}

// enable enables the missing controllers one by one, so that one refusal does not affect the
// others. A group that contains processes refuses all of them; that is an error.
func (t *Tree) enable(dir string, names []string) error {
	file := filepath.Join(dir, "cgroup.subtree_control")
	var first error
	disabled := t.disabled(dir, names)
	for _, name := range disabled {
		err := t.files.write(file, "+"+name)
		switch {
		case err == nil:
			continue
		case errors.Is(err, syscall.EBUSY), gone(err):
			return err
		case first == nil:
			first = err
		}
	}
	if len(t.disabled(dir, names)) == len(names) {
		return first // no controller is available
	}
	return nil
}

func (t *Tree) disabled(dir string, names []string) []string {
	enabled := readWords(t.files, filepath.Join(dir, "cgroup.subtree_control"))
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(enabled, name) })
}
