package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestNoLimitsNeedNoGroups(t *testing.T) {
	m := newMachine(t)
	pids := m.splitMount("pids")
	g, unenforced, err := m.open().New("a", Limits{})
	if err != nil || len(unenforced) > 0 {
		t.Fatal(unenforced, err)
	}
	m.must(g.Add(77))
	m.must(g.Remove(t.Context()))
	m.want(filepath.Join(pids, "rollout/cgroup.procs"), "absent")
}

func TestIDsAreUnique(t *testing.T) {
	m := newMachine(t)
	pids := m.splitMount("pids")
	tree := m.open()
	first, _, err := tree.New("a", Limits{Pids: 5})
	m.must(err)
	if _, _, err := tree.New("a", Limits{Pids: 6}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v", err)
	}
	m.want(filepath.Join(pids, "rollout/a/pids.max"), "5")
	m.must(first.Remove(t.Context()))
}

// New removes the limits that it has set if a later one fails.
func TestNewLeavesNothingBehind(t *testing.T) {
	m := newMachine(t)
	memory, pids := m.splitMount("memory"), m.splitMount("pids")
	tree := m.open()
	m.kernel.refuse = func(op, path string) error {
		if op == "write" && strings.HasPrefix(path, pids) {
			return syscall.EIO
		}
		return nil
	}
	if _, _, err := tree.New("a", all); !errors.Is(err, syscall.EIO) {
		t.Errorf("got %v", err)
	}
	m.want(filepath.Join(memory, "rollout/cgroup.procs"), "absent")
	m.want(filepath.Join(pids, "rollout/cgroup.procs"), "absent")
}

func TestRefusedLimitsAreUnenforced(t *testing.T) {
	m := newMachine(t)
	m.splitMount("cpu", "memory", "pids")
	tree := m.open()
	m.kernel.refuse = func(op, path string) error {
		if op == "write" && filepath.Base(path) == "cpu.cfs_quota_us" {
			return syscall.EINVAL
		}
		return nil
	}
	_, unenforced, err := tree.New("a", all)
	if err != nil || !slices.Equal(unenforced, []string{CPUs}) {
		t.Errorf("unenforced %v, %v", unenforced, err)
	}
}

func TestSwapNeedNotBeCounted(t *testing.T) {
	m := newMachine(t)
	point := m.splitMount("memory", "cpu", "pids")
	m.kernel.split[point] = slices.DeleteFunc(m.kernel.split[point], func(f string) bool { return strings.Contains(f, "memsw") })
	limited(t, m.open(), "a")
	m.want(filepath.Join(point, "rollout/a/memory.limit_in_bytes"), "67108864")
	m.want(filepath.Join(point, "rollout/a/memory.memsw.limit_in_bytes"), "absent")
}

// Another process removes the empty top group before each possible step.
func TestTopGroupRemovedMeanwhile(t *testing.T) {
	m := newMachine(t)
	root := m.unifiedMount("cpu", "memory", "pids")
	top := filepath.Join(root, "rollout")
	tree := m.open()
	removed := make(map[string]bool)
	var here func(op, path string)
	here = func(op, path string) {
		if !strings.HasPrefix(path, top+"/") || removed[op+path] {
			return
		}
		m.kernel.before = nil // the call below is not to come back here
		removed[op+path] = m.kernel.rmdir(top) == nil
		m.kernel.before = here
	}
	m.kernel.before = here
	limited(t, tree, "a")
	for _, step := range []string{"mkdir" + top + "/a", "write" + top + "/cgroup.subtree_control"} {
		if !removed[step] {
			t.Errorf("not removed before %s: %v", step, removed)
		}
	}
	m.want(filepath.Join(top, "a/memory.max"), "67108864")
}

// Another process has made the top group, but not yet enabled controllers in it.
func TestTopGroupNotPreparedYet(t *testing.T) {
	m := newMachine(t)
	root := m.unifiedMount("cpu", "memory", "pids")
	tree := m.open()
	m.must(m.kernel.make(filepath.Join(root, "rollout")))
	limited(t, tree, "a")
	m.want(filepath.Join(root, "rollout/a/memory.max"), "67108864")
}

// The system's manager disables controllers at the root when none of its groups needs them.
func TestControllersDisabledMeanwhile(t *testing.T) {
	m := newMachine(t)
	root := m.unifiedMount("cpu", "memory", "pids")
	tree := m.open()
	put(root, "cgroup.subtree_control", "memory")
	limited(t, tree, "a")
	m.want(filepath.Join(root, "rollout/a/cpu.max"), "50000 100000")
}

// Each process removes the top group after its last group, while others need it.
func TestManyProcesses(t *testing.T) {
	for _, version := range []string{"version 1", "version 2"} {
		t.Run(version, func(t *testing.T) {
			m := newMachine(t)
			var point string
			if version == "version 1" {
				point = m.splitMount("cpu", "memory", "pids")
			} else {
				point = m.unifiedMount("cpu", "memory", "pids")
			}
			var processes sync.WaitGroup
			for p := range 4 {
				processes.Go(func() {
					for i := range 10 {
						tree := m.open()
						g, unenforced, err := tree.New(fmt.Sprintf("%d-%d", p, i), all)
						if err != nil || len(unenforced) > 0 {
							t.Errorf("unenforced %v, %v; missing %v", unenforced, err, tree.Missing())
							continue
						}
						if err := g.Remove(t.Context()); err != nil {
							t.Error(err)
						}
					}
				})
			}
			processes.Wait()
			m.want(filepath.Join(point, "rollout/cgroup.procs"), "absent")
		})
	}
}

func TestOOMKills(t *testing.T) {
	for _, tc := range []struct {
		name, file, text string
		want             int
	}{
		{"version 1", "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", 3},
		{"version 1 before 4.13", "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\n", 0},
		{"version 2", "memory.events", "low 0\nmax 7\noom 4\noom_kill 2\noom_group_kill 0\n", 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := newMachine(t)
			if tc.file == "memory.events" {
				m.unifiedMount("memory")
			} else {
				m.splitMount("memory")
			}
			g, _, err := m.open().New("a", Limits{Memory: 1 << 20})
			m.must(err)
			put(g.memory, tc.file, tc.text)
			if got, err := g.OOMKills(); err != nil || got != tc.want {
				t.Errorf("got %d, %v; want %d", got, err, tc.want)
			}
		})
	}
}

func TestOOMKillsWithoutALimit(t *testing.T) {
	m := newMachine(t)
	m.splitMount("pids")
	g, _, err := m.open().New("a", all)
	m.must(err)
	if got, err := g.OOMKills(); got != 0 || err != nil {
		t.Error(got, err)
	}
}

func TestRemoveWaitsForProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t)
		pids := m.splitMount("pids")
		g, _, err := m.open().New("a", Limits{Pids: 5})
		m.must(err)
		m.must(g.Add(77))
		go func() {
			time.Sleep(time.Second) // fake time: the process dies
			m.must(m.kernel.write(filepath.Join(pids, "cgroup.procs"), "77"))
		}()
		m.must(g.Remove(t.Context()))
		m.must(g.Remove(t.Context())) // again is fine
		m.want(filepath.Join(pids, "rollout/cgroup.procs"), "absent")
	})
}

func TestRemoveGivesUp(t *testing.T) {
	for _, ctxEnds := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m := newMachine(t)
			pids := m.splitMount("pids")
			g, _, err := m.open().New("a", Limits{Pids: 5})
			m.must(err)
			m.must(g.Add(77))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if ctxEnds {
				cancel()
			}
			start := time.Now()
			if err := g.Remove(ctx); !errors.Is(err, syscall.EBUSY) || !strings.Contains(err.Error(), "77") {
				t.Errorf("got %v", err)
			}
			if took := time.Since(start); ctxEnds && took > 0 || took > removeTimeout {
				t.Errorf("took %v of fake time", took)
			}
			m.want(filepath.Join(pids, "rollout/a/cgroup.procs"), "77")
		})
	}
}

func TestSweep(t *testing.T) {
	m := newMachine(t)
	memory, root := m.splitMount("memory"), m.unifiedMount("cpu", "pids")
	tree := m.open()
	for _, id := range []string{"dead", "alive", "busy"} {
		g, _, err := tree.New(id, all)
		m.must(err)
		if id == "busy" {
			m.must(g.Add(77))
		}
	}
	err := m.open().Sweep(func(id string) bool { return id == "alive" })
	if !errors.Is(err, syscall.EBUSY) || !strings.Contains(err.Error(), "busy") {
		t.Errorf("got %v", err)
	}
	for _, point := range []string{memory, root} {
		m.want(filepath.Join(point, "rollout/dead/cgroup.procs"), "absent")
		m.want(filepath.Join(point, "rollout/alive/cgroup.procs"), "")
		m.want(filepath.Join(point, "rollout/busy/cgroup.procs"), "77")
	}
}

func TestSweepRemovesTheTopGroup(t *testing.T) {
	m := newMachine(t)
	pids := m.splitMount("pids")
	tree := m.open()
	_, _, err := tree.New("dead", all)
	m.must(err)
	m.must(tree.Sweep(func(string) bool { return false }))
	m.want(filepath.Join(pids, "rollout/cgroup.procs"), "absent")
	m.must(tree.Sweep(func(string) bool { return false })) // nothing to do is fine
}
