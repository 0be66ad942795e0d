//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/providers/sandbox"
)

// process is a process of this machine. Its start time distinguishes it from another with the same
// id.
type process struct {
	pid    int
	parent int
	start  string // in ticks since the boot
	args   string // one line
}

// allProcesses returns the live processes, without zombies.
func allProcesses(t *testing.T) []process {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	must(t, err)
	var all []process
	for _, dir := range dirs {
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil {
			continue // it has ended
		}
		// The second field is in brackets and may hold anything. Source: proc_pid_stat(5).
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(dir))
		parent, _ := strconv.Atoi(fields[1])
		args, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		all = append(all, process{pid, parent, fields[19], strings.TrimSpace(strings.ReplaceAll(string(args), "\x00", " "))})
	}
	return all
}

// below returns the descendants of a process, in any order.
func below(all []process, pid int) []process {
	var found []process
	for _, p := range all {
		if p.parent == pid {
			found = append(append(found, p), below(all, p.pid)...)
		}
	}
	return found
}

// insiders holds the processes of a run's sandboxes, not those of other providers.
type insiders struct {
	job     job
	members []process
}

// insideOf returns the processes in the sandboxes of the run with process pid: all of its
// descendants, however detached, since orphans are reparented to their sandbox's process 1. It
// waits until each of n agents has both its processes, and checks that this machine's mounts show
// nothing of it.
func (j job) insideOf(t *testing.T, pid, n int) insiders {
	t.Helper()
	if j.provider != sandbox.Name {
		return insiders{}
	}
	deadline := time.Now().Add(2 * time.Minute)
	for {
		in := insiders{j, below(allProcesses(t), pid)}
		if sleepers := j.sleepers(in.members); len(sleepers) == 2*n {
			wantNoMounts(t)
			return in
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d agents have not started two processes each: %v", n, in.members)
		}
		time.Sleep(20 * time.Millisecond) // polls
	}
}

// sleepers returns the processes that agents of this job have started.
func (j job) sleepers(all []process) []process {
	return slices.DeleteFunc(slices.Clone(all), func(p process) bool { return p.args != "sleep "+j.mark })
}

// inits returns the processes 1 of the sandboxes.
func (in insiders) inits() []process {
	return slices.DeleteFunc(slices.Clone(in.members), func(p process) bool { return !strings.HasPrefix(p.args, "rollout-sandbox") })
}

// living returns the members that are still alive.
func (in insiders) living(t *testing.T) []process {
	t.Helper()
	all := allProcesses(t)
	return slices.DeleteFunc(slices.Clone(in.members), func(p process) bool {
		return !slices.ContainsFunc(all, func(q process) bool { return p.pid == q.pid && p.start == q.start })
	})
}

// wantGone waits until none of them, and no other process with the job's mark, is alive, and checks
// that no mount is left.
func (in insiders) wantGone(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(time.Minute) // the kernel ends them after their process 1, almost immediately
	for {
		left := append(in.living(t), in.job.sleepers(allProcesses(t))...)
		if len(left) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Errorf("processes of sandboxes are left: %+v", left)
			break
		}
		time.Sleep(10 * time.Millisecond) // polls
	}
	wantNoMounts(t)
}

func (in insiders) wantAlive(t *testing.T) {
	t.Helper()
	if n := len(in.living(t)); n != len(in.members) {
		t.Errorf("%d of %d processes live", n, len(in.members))
	}
}

// wantNoMounts checks that no mount of this machine refers to the store of these tests; other
// mounts may come and go meanwhile.
func wantNoMounts(t *testing.T) {
	t.Helper()
	table, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	for line := range strings.Lines(string(table)) {
		if strings.Contains(line, scratch) {
			t.Errorf("a mount of a sandbox is seen outside: %s", line)
		}
	}
}

// String returns a description for messages.
func (p process) String() string { return fmt.Sprintf("%d (parent %d) %s", p.pid, p.parent, p.args) }
