//go:build linux

package initproc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/providers/internal/confine"
	"github.com/org/rollout-action/providers/internal/initwire"
	"github.com/org/rollout-action/providers/internal/processes"
)

// killTimeout bounds the ending of one command.
const killTimeout = 30 * time.Second

// The ways in which a command cannot be started, apart from its user and directory.
var (
	errNoProgram = errors.New("no such program")
	errStart     = errors.New("start")
)

// errNotEnded reports that processes of a command could not be ended.
var errNotEnded = errors.New("processes of the command are still running")

// children has the commands of a sandbox. One thread, with fewer rights than the others, starts
// them all. Process 1 must wait for orphans, too, so nothing here uses os/exec, which waits by
// itself.
type children struct {
	oneID       bool
	made        bool       // see initwire.Setup
	cgroupTasks []*os.File // "tasks" files of the control groups of commands
	notes       []string
	starts      chan func()

	mu      sync.Mutex       // held while a command is started, so that reap does not miss it
	running map[int]*command // by process id
	// execs are the commands that run, and those that ended since the last one was started: when
	// one ends just as it is to be killed, the processes that it started are killed all the same.
	execs map[int64]*command
}

// command is a command that was started.
type command struct {
	processes.Process
	ended bool
	exit  chan<- unix.WaitStatus // has a buffer for it
}

// newChildren starts the thread that starts commands. initwire.Setup explains cgroupTasks.
func newChildren(setup initwire.Setup, cgroupTasks []*os.File) (*children, error) {
	c := &children{oneID: setup.OneID, made: setup.Made, cgroupTasks: cgroupTasks, starts: make(chan func()), running: map[int]*command{}, execs: map[int64]*command{}}
	if err := resistSignals(); err != nil {
		return nil, err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGCHLD)
	go func() {
		for range signals {
			c.reap()
		}
	}()
	if err := c.startThread(); err != nil {
		return nil, err
	}
	return c, nil
}

// startThread starts the thread that starts commands.
func (c *children) startThread() error {
	confined := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: it has lost its rights
		err := joinCgroups(c.cgroupTasks)
		if err == nil && !c.made {
			c.notes, err = confine.Thread(confine.Options{FakeOwners: c.oneID})
		}
		confined <- err
		for start := range c.starts {
			start()
		}
	}()
	if err := <-confined; err != nil {
		close(c.starts)
		return fmt.Errorf("restrict what commands may do: %w", err)
	}
	return nil
}

func joinCgroups(cgroupTasks []*os.File) error {
	for _, file := range cgroupTasks {
		if _, err := file.WriteString("0"); err != nil {
			return fmt.Errorf("enter a control group: %w", err)
		}
	}
	return nil
}

// reaping is held while processes are waited for.
var reaping sync.Mutex

// WithoutReaping calls do while this package waits for no process, so that no id of a process that
// do starts becomes that of another one.
func WithoutReaping(do func()) {
	reaping.Lock()
	defer reaping.Unlock()
	do()
}

// reap waits for all processes that have ended.
func (c *children) reap() {
	reaping.Lock()
	defer reaping.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if ended, ours := c.running[pid]; ours {
			delete(c.running, pid)
			ended.ended = true
			ended.exit <- status
		}
	}
}

// exitCode returns a process's exit code as a shell reports it.
func exitCode(status unix.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// start starts a command. The channel receives its exit status.
func (c *children) start(id int64, cmd *initwire.Command, files []*os.File) (<-chan unix.WaitStatus, error) {
	if len(files) == 2 {
		// Not opened by the provider: real root could change the mode of the machine's device by
		// its open file.
		empty, err := os.Open(os.DevNull)
		if err != nil {
			return nil, err
		}
		defer empty.Close()
		files = []*os.File{empty, files[0], files[1]}
	}
	if len(files) != 3 {
		return nil, fmt.Errorf("%d files for a command, want 2 or 3", len(files))
	}
	program, attr, err := c.prepare(cmd)
	if err != nil {
		return nil, err
	}
	attr.Sys.Setctty = cmd.Terminal // Ctty 0 is the first file
	attr.Files = []uintptr{files[0].Fd(), files[1].Fd(), files[2].Fd()}
	exit := make(chan unix.WaitStatus, 1)
	failed := make(chan error)
	err = retryBusy(func() error {
		c.starts <- func() { failed <- c.fork(id, program, cmd, attr, exit) }
		return <-failed
	})
	if err != nil {
		return nil, err
	}
	return exit, nil
}

// fork starts a command. It must run in the starting thread.
func (c *children) fork(id int64, program string, cmd *initwire.Command, attr *syscall.ProcAttr, exit chan<- unix.WaitStatus) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.execs, func(_ int64, e *command) bool { return e.ended })
	pid, err := syscall.ForkExec(program, cmd.Args, attr)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: %s, or the interpreter that it names", errNoProgram, program)
	}
	if err != nil {
		return fmt.Errorf("%w %s: %w", errStart, program, err)
	}
	start, err := processes.Started(pid)
	if err == nil && cmd.MaxProcesses > 0 {
		// The program has just begun and has started nothing.
		err = limitProcesses(pid, cmd.MaxProcesses)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("watch %s: %w", program, err), unix.Kill(pid, unix.SIGKILL))
	}
	started := &command{Process: processes.Process{PID: pid, Start: start}, exit: exit}
	c.running[pid], c.execs[id] = started, started
	return nil
}

// Bounds of the wait for a program that is open for writing.
const (
	busyTries = 20
	busyPause = 10 * time.Millisecond
)

// retryBusy starts a program. Linux executes none that is open for writing: a file that this
// process has just unpacked is still open in a process that was forked meanwhile, until that
// executes its own program.
func retryBusy(start func() error) (err error) {
	for range busyTries {
		if err = start(); !errors.Is(err, unix.ETXTBSY) {
			break
		}
		time.Sleep(busyPause)
	}
	return err
}

// limitProcesses limits the processes of the user of process pid.
func limitProcesses(pid int, most int64) error {
	limit := unix.Rlimit{Cur: uint64(most), Max: uint64(most)}
	done := make(chan error)
	go func() { done <- unix.Prlimit(pid, unix.RLIMIT_NPROC, &limit, nil) }() // the starting thread may not limit others
	return <-done
}

// prepare looks up the program, the user and the directory of a command.
func (c *children) prepare(cmd *initwire.Command) (string, *syscall.ProcAttr, error) {
	if len(cmd.Args) == 0 {
		return "", nil, errors.New("no command")
	}
	who, err := identify(cmd.User)
	if err != nil {
		return "", nil, err
	}
	dir := cmd.Dir
	if dir == "" {
		dir = "/"
	}
	if info, err := os.Stat(dir); err != nil {
		return "", nil, fmt.Errorf("the working directory: %w", err)
	} else if !info.IsDir() {
		return "", nil, fmt.Errorf("the working directory %s is not a directory", dir)
	}
	env := withHome(cmd.Env, who.home)
	program, err := lookPath(cmd.Args[0], env, dir)
	if err != nil {
		return "", nil, err
	}
	attr := &syscall.ProcAttr{Dir: dir, Env: env, Sys: &syscall.SysProcAttr{Setsid: true}}
	if who.uid != 0 || who.gid != 0 || len(who.groups) > 0 {
		if c.oneID && (who.uid != 0 || who.gid != 0) {
			return "", nil, fmt.Errorf("user %q is not root, and this sandbox has no other", cmd.User)
		}
		if !c.oneID {
			attr.Sys.Credential = &syscall.Credential{Uid: who.uid, Gid: who.gid, Groups: who.groups}
		}
	}
	return program, attr, nil
}

// runs reports whether a command is still running.
func (c *children) runs(id int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	cmd, known := c.execs[id]
	return known && !cmd.ended
}

// kill ends a command and all that it started.
func (c *children) kill(id int64) error {
	c.mu.Lock()
	root, known := c.execs[id]
	var others []processes.Process
	for other, cmd := range c.execs {
		if other != id {
			others = append(others, cmd.Process)
		}
	}
	c.mu.Unlock()
	if !known {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
	defer cancel()
	if err := processes.Kill(ctx, root.Process, others...); err != nil {
		return fmt.Errorf("%w: %w", errNotEnded, err)
	}
	return nil
}
