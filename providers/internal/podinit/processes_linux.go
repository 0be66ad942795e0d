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

	"github.com/org/rollout-action/providers/internal/initproc"
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

// countProcesses returns how many processes and threads there are, and how many there may be; 0, 0
// if that is not known. The limit of a container is in its control group. That of its pod is in one
// that containers do not see, and is known only when hardly any process can begin.
func countProcesses() (n, limit int) {
	if n, limit = ownLimit(firstLine); n >= limit-wantedProcesses && limit > 0 {
		return n, limit
	}
	own, others := countTasks()
	if others < manyProcesses || !fills(own+others, readMachine(firstLine)) {
		return n, limit
	}
	if room, full := forks(wantedProcesses); full {
		return own + others, own + others + room
	}
	return n, limit
}

// ownLimit returns the number of processes and threads in the control group of the container, and
// their limit; 0, 0 if it has none or does not show it.
func ownLimit(read func(file string) string) (n, limit int) {
	for _, dir := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/pids/"} { // of version 2, and of 1
		limit, err := strconv.Atoi(read(dir + "pids.max"))
		if err != nil {
			continue // there is no such file, or it has "max"
		}
		if n, err := strconv.Atoi(read(dir + "pids.current")); err == nil && limit > 0 {
			return n, limit
		}
	}
	return 0, 0
}

// machine is the machine of a container.
type machine struct {
	tasks int // processes and threads; 0: unknown
	limit int // 0: unknown
}

func readMachine(read func(file string) string) (m machine) {
	fields := strings.Fields(read("/proc/loadavg"))
	if len(fields) < 4 {
		return machine{}
	}
	var running int
	if _, err := fmt.Sscanf(fields[3], "%d/%d", &running, &m.tasks); err != nil {
		return machine{}
	}
	for _, name := range []string{"threads-max", "pid_max"} {
		limit, err := strconv.Atoi(read("/proc/sys/kernel/" + name))
		if err != nil {
			return machine{}
		}
		if m.limit == 0 || limit < m.limit {
			m.limit = limit
		}
	}
	return m
}

// fills reports whether it can only be the n tasks of a container that fill a limit that keeps
// others from beginning. Two other limits are shared with neighbours, of which a container sees
// only what the machine tells: that of the machine itself, and that of all pods, which is the
// machine's less the share reserved for the system (the kubelet's kubeReserved and systemReserved).
// Unless it is far from both, the container must have most of the machine's tasks, and the machine
// must have room.
func fills(n int, m machine) bool {
	switch {
	case m.limit <= 0 || m.tasks < n: // it cannot be told
		return false
	case m.tasks >= m.limit-max(wantedProcesses, m.limit/32):
		return false
	}
	return m.tasks < m.limit/2 || n >= m.tasks/2
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

func firstLine(name string) string {
	text, err := os.ReadFile(name) // #nosec G304 -- of /proc
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

// forks returns how many of some processes can begin at the same time, and whether a limit kept the
// others from it. They end at once, and are reaped as orphans are.
func forks(wanted int) (n int, full bool) {
	initproc.WithoutReaping(func() { n, full = forkAll(wanted) })
	return n, full
}

// forkAll starts processes and kills them by their ids. As nothing reaps meanwhile, an id is that
// of the same process even if something else has killed it.
func forkAll(wanted int) (n int, full bool) {
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
