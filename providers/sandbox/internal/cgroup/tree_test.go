package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

var all = Limits{MilliCPUs: 500, Memory: 64 << 20, Pids: 20}

// limited makes a group with all limits and a process in it.
func limited(t *testing.T, tree *Tree, id string) *Group {
	t.Helper()
	g, unenforced, err := tree.New(id, all)
	if err != nil || len(unenforced) > 0 {
		t.Fatalf("unenforced %v, %v; missing %v", unenforced, err, tree.Missing())
	}
	if err := g.Add(77); err != nil {
		t.Fatal(err)
	}
	return g
}

func TestSplit(t *testing.T) {
	m := newMachine(t)
	cpu, memory, pids := m.splitMount("cpu", "cpuacct"), m.splitMount("memory"), m.splitMount("pids")
	limited(t, m.open(), "a")
	m.want(filepath.Join(cpu, "rollout/a/cpu.cfs_period_us"), "100000")
	m.want(filepath.Join(cpu, "rollout/a/cpu.cfs_quota_us"), "50000")
	m.want(filepath.Join(memory, "rollout/a/memory.limit_in_bytes"), "67108864")
	m.want(filepath.Join(memory, "rollout/a/memory.memsw.limit_in_bytes"), "67108864")
	m.want(filepath.Join(pids, "rollout/a/pids.max"), "20")
	for _, point := range []string{cpu, memory, pids} {
		m.want(filepath.Join(point, "rollout/a/cgroup.procs"), "77")
	}
}

func TestUnified(t *testing.T) {
	m := newMachine(t)
	root := m.unifiedMount("cpuset", "cpu", "io", "memory", "pids")
	limited(t, m.open(), "a")
	m.want(filepath.Join(root, "cgroup.subtree_control"), "memory cpu pids")
	m.want(filepath.Join(root, "cgroup.procs"), "1\n42") // the root may hold processes: nothing moves
	m.want(filepath.Join(root, "rollout/a/cpu.max"), "50000 100000")
	m.want(filepath.Join(root, "rollout/a/memory.max"), "67108864")
	m.want(filepath.Join(root, "rollout/a/memory.swap.max"), "0")
	m.want(filepath.Join(root, "rollout/a/pids.max"), "20")
	m.want(filepath.Join(root, "rollout/a/cgroup.procs"), "77")
}

func TestHybridHierarchiesOfCgroups(t *testing.T) {
	m := newMachine(t)
	root, memory := m.unifiedMount("cpu", "pids"), m.splitMount("memory")
	g := limited(t, m.open(), "a")
	m.want(filepath.Join(root, "rollout/a/cpu.max"), "50000 100000")
	m.want(filepath.Join(root, "rollout/a/memory.max"), "absent")
	m.want(filepath.Join(memory, "rollout/a/memory.limit_in_bytes"), "67108864")
	if len(g.dirs) != 2 {
		t.Errorf("groups %v, want one in each hierarchy", g.dirs)
	}
}

func TestOpenLeavesNoGroups(t *testing.T) {
	m := newMachine(t)
	memory, root := m.splitMount("memory"), m.unifiedMount("cpu", "pids")
	m.open()
	m.want(filepath.Join(memory, "rollout/cgroup.procs"), "absent")
	m.want(filepath.Join(root, "rollout/cgroup.procs"), "absent")
}

func TestDelegated(t *testing.T) {
	m := newMachine(t)
	m.unifiedMount("cpu", "memory", "pids")
	own := m.delegate()
	limited(t, m.open(), "a")
	m.want(filepath.Join(own, "cgroup.procs"), "")
	m.want(filepath.Join(own, "rollout-self/cgroup.procs"), "42")
	m.want(filepath.Join(own, "rollout/a/memory.max"), "67108864")

	// The processes that this one starts are in the child, and find the same place.
	m.self.own[""] = "/user.scope/rollout-self"
	m.self.pid = 43
	limited(t, m.open(), "b")
	m.want(filepath.Join(own, "rollout/b/pids.max"), "20")
}

// A failure after the move must not leave the process elsewhere.
func TestDelegatedButNotGranted(t *testing.T) {
	m := newMachine(t)
	m.unifiedMount("cpu", "memory", "pids")
	own := m.delegate()
	may := m.kernel.refuse
	m.kernel.refuse = func(op, path string) error {
		if op == "write" && path == filepath.Join(own, "cgroup.subtree_control") {
			return syscall.EACCES
		}
		return may(op, path)
	}
	if got := m.open().Missing(); len(got) != 3 {
		t.Errorf("missing %v", got)
	}
	m.want(filepath.Join(own, "cgroup.procs"), "42")
	m.want(filepath.Join(own, "rollout-self/cgroup.procs"), "absent")
	m.want(filepath.Join(own, "rollout/cgroup.procs"), "absent")
}

func TestMissing(t *testing.T) {
	readOnly := func(string, string) error { return syscall.EROFS }
	forbidden := func(string, string) error { return syscall.EACCES }
	for name, tc := range map[string]struct {
		set  func(m *machine)
		want map[string]string // parts of the reasons
	}{
		"nothing is mounted": {func(*machine) {}, map[string]string{
			CPUs: "cpu controller is not there", Memory: "memory controller is not there", Pids: "pids controller is not there"}},
		"one controller is not mounted": {func(m *machine) { m.splitMount("cpu"); m.splitMount("memory") },
			map[string]string{Pids: "pids controller is not there"}},
		"version 2 lacks one controller": {func(m *machine) { m.unifiedMount("cpu", "pids") },
			map[string]string{Memory: "not given the kernel's memory controller"}},
		"version 1 has a mount that is read-only": {func(m *machine) {
			m.splitMount("memory")
			m.unifiedMount("cpu", "pids")
			point := m.mounts[0].point
			m.kernel.refuse = func(_, path string) error {
				if strings.HasPrefix(path, point) {
					return syscall.EROFS
				}
				return nil
			}
		}, map[string]string{Memory: "mounted read-only"}},
		"version 2 is read-only": {func(m *machine) { m.unifiedMount("cpu", "memory", "pids"); m.kernel.refuse = readOnly },
			map[string]string{CPUs: "read-only", Memory: "read-only", Pids: "read-only"}},
		"not root, with version 2": {func(m *machine) {
			m.unifiedMount("cpu", "memory", "pids")
			m.self.root, m.kernel.refuse = false, forbidden
		}, map[string]string{CPUs: "systemd-run --user", Memory: "not root, and none is delegated", Pids: "none is delegated"}},
		"not root, with version 1": {func(m *machine) {
			m.splitMount("cpu", "memory", "pids")
			m.self.root, m.kernel.refuse = false, forbidden
		}, map[string]string{CPUs: "delegated (run as root)", Memory: "(run as root)", Pids: "(run as root)"}},
		"not root, and root's top group is there": {func(m *machine) {
			point := m.splitMount("cpu", "memory", "pids")
			m.must(m.kernel.make(filepath.Join(point, "rollout")))
			m.self.root = false
			m.kernel.refuse = func(_, path string) error {
				if filepath.Base(path) == "rollout" {
					return nil // it exists, and is not empty
				}
				return syscall.EACCES
			}
			m.must(os.WriteFile(filepath.Join(point, "rollout/busy"), nil, 0o600))
		}, map[string]string{CPUs: "(run as root)", Memory: "(run as root)", Pids: "(run as root)"}},
		"root, but the container forbids it": {func(m *machine) {
			m.splitMount("cpu", "memory", "pids")
			m.kernel.refuse = forbidden
		}, map[string]string{CPUs: "although this is root", Memory: "although this is root", Pids: "although this is root"}},
		"others are in the delegated group": {func(m *machine) { m.unifiedMount("cpu", "memory", "pids"); m.delegate("7") },
			map[string]string{CPUs: "other processes are in", Memory: "other processes are in", Pids: "only process of a delegated"}},
		"the kernel cannot limit processor time": {func(m *machine) {
			point := m.splitMount("cpu", "memory", "pids")
			m.kernel.split[point] = slices.Concat(splitFiles["memory"], splitFiles["pids"])
		}, map[string]string{CPUs: "no such limit"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			tc.set(m)
			tree := m.open()
			got := tree.Missing()
			if len(got) != len(tc.want) {
				t.Errorf("missing %v, want %v", got, tc.want)
			}
			for limit, part := range tc.want {
				if !strings.Contains(got[limit], part) {
					t.Errorf("%s: %q, want %q in it", limit, got[limit], part)
				}
			}
			_, unenforced, err := tree.New("a", all)
			if err != nil || len(unenforced) != len(got) || !slices.IsSorted(unenforced) {
				t.Errorf("New: unenforced %v, %v", unenforced, err)
			}
		})
	}
}

// Other processes in the group must not be moved, nor the process away from them.
func TestOtherProcessesAreNotMoved(t *testing.T) {
	m := newMachine(t)
	m.unifiedMount("cpu", "memory", "pids")
	own := m.delegate("7")
	m.open()
	m.want(filepath.Join(own, "cgroup.procs"), "7\n42")
	m.want(filepath.Join(own, "cgroup.subtree_control"), "")
}

func TestOpenRefusesNames(t *testing.T) {
	for _, name := range []string{"", "a/b", "..", "cgroup.procs", "a b", strings.Repeat("a", 201)} {
		if _, err := Open(name); err == nil {
			t.Errorf("%q is taken", name)
		}
		if _, _, err := newMachine(t).open().New(name, all); err == nil {
			t.Errorf("%q is taken as an id", name)
		}
	}
}
