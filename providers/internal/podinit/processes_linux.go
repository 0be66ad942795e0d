package podinit

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// spareThreads are begun with the guest: Go's runtime ends a program that needs a thread and
	// cannot have it, and an agent may leave room for none.
	spareThreads = 8
	// manyProcesses is what fills a limit. With fewer, it is the machine that has no room.
	manyProcesses = 32
	// wantedProcesses is how many more must be able to begin. See environment.Crowded.
	wantedProcesses = 9
)

// spareThreadsNow begins threads that the runtime keeps.
func spareThreadsNow() {
	var all, ready sync.WaitGroup
	ready.Add(spareThreads)
	for range spareThreads {
		all.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread() // it stays, without work
			ready.Done()
			ready.Wait()
		})
	}
	all.Wait()
}

// countProcesses returns how many processes and threads there are, and how many there may be if
// hardly any can begin: the limit of a pod is in a control group that its containers do not see.
// Otherwise 0, 0.
func countProcesses() (n, limit int) {
	own, others := countTasks()
	if others < manyProcesses || machineFull() {
		return 0, 0
	}
	room, full := forks(wantedProcesses)
	if !full {
		return 0, 0
	}
	n = own + others
	return n, n + room
}

// countTasks counts the threads of this process and those of all others in its pid namespace.
func countTasks() (own, others int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, 0
	}
	self := strconv.Itoa(os.Getpid())
	for _, entry := range entries {
		if _, err := strconv.Atoi(entry.Name()); err != nil {
			continue
		}
		tasks, err := os.ReadDir("/proc/" + entry.Name() + "/task")
		switch {
		case err != nil: // it has ended
		case entry.Name() == self:
			own = len(tasks)
		default:
			others += len(tasks)
		}
	}
	return own, others
}

// machineFull reports whether the whole machine has hardly any room for processes, or whether that
// cannot be told.
func machineFull() bool {
	var running, all int64
	fields := strings.Fields(firstLine("/proc/loadavg"))
	if len(fields) < 4 {
		return true
	}
	if _, err := fmt.Sscanf(fields[3], "%d/%d", &running, &all); err != nil {
		return true
	}
	for _, name := range []string{"threads-max", "pid_max"} {
		limit, err := strconv.ParseInt(firstLine("/proc/sys/kernel/"+name), 10, 64)
		if err != nil || all >= limit-max(wantedProcesses, limit/32) {
			return true
		}
	}
	return false
}

func firstLine(name string) string {
	text, err := os.ReadFile(name) // #nosec G304 -- of /proc
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

// forks returns how many of some processes can begin at the same time, and whether a limit kept the
// others from it. They end at once, and whoever reaps orphans reaps them.
func forks(wanted int) (n int, full bool) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// A handler of a signal needs the runtime, which the new processes do not have.
	var all, before unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	if unix.PthreadSigmask(unix.SIG_SETMASK, &all, &before) != nil {
		return 0, false
	}
	var pids []int
	for len(pids) < wanted {
		pid, errno := forkIdle()
		if errno != 0 {
			full = errno == unix.EAGAIN
			break
		}
		pids = append(pids, int(pid))
	}
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil)
	for _, pid := range pids {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	return len(pids), full
}

// forkIdle begins a process that waits to be killed. It does nothing else: the runtime does not
// work in a copy with one thread.
//
//go:norace
//go:nosplit
func forkIdle() (pid uintptr, errno syscall.Errno) {
	pid, _, errno = syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if pid != 0 || errno != 0 {
		return pid, errno
	}
	for {
		_, _, _ = syscall.RawSyscall6(syscall.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
	}
}
