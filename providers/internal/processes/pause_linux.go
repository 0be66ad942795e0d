package processes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// ErrRunning reports that a process could not be stopped in time.
var ErrRunning = errors.New("processes could not be stopped for a moment")

// Paused are the processes that Pause has stopped.
type Paused struct {
	list    *proc
	stopped map[Process]bool
}

// Pause stops all other processes of this pid namespace, and returns when no thread of them runs
// any more. Resume must be called then. Those that were stopped already stay so after Resume. Only
// the first process of the namespace may call this, with that namespace's /proc mounted. After an
// error nothing is stopped by it; ErrRunning is in its chain if ctx ended first.
func Pause(ctx context.Context) (*Paused, error) {
	list, err := openProc()
	if err != nil {
		return nil, err
	}
	p := &Paused{list: list, stopped: map[Process]bool{}}
	if err := p.pause(ctx); err != nil {
		return nil, errors.Join(err, p.Resume())
	}
	return p, nil
}

func (p *Paused) pause(ctx context.Context) error {
	for quiet := 0; quiet < settled; {
		running, err := p.look()
		if err != nil {
			return err
		}
		quiet++
		if len(running) > 0 {
			quiet = 0
			select {
			case <-ctx.Done():
				return fmt.Errorf("%w (%s): %w", ErrRunning, ids(running), context.Cause(ctx))
			case <-time.After(pause):
			}
		}
	}
	return nil
}

// look stops the processes that run, and returns them: they stop when their work in the kernel is
// done.
func (p *Paused) look() (running []Process, err error) {
	list, err := p.list.scan()
	if err != nil {
		return nil, err
	}
	self := os.Getpid()
	for _, s := range slices.Clone(list) {
		if s.PID == self || s.dead() {
			continue
		}
		runs, err := p.list.runs(s)
		if err != nil {
			return nil, err
		}
		if !runs {
			continue
		}
		running = append(running, s.Process)
		p.stopped[s.Process] = true
		if err := p.list.signal(s.Process, unix.SIGSTOP); err != nil { // again, too: another process may have let it go on
			return nil, err
		}
	}
	return running, nil
}

// Resume lets the processes go on. It must be called once.
func (p *Paused) Resume() error {
	defer p.list.close()
	var errs []error
	for s := range p.stopped {
		errs = append(errs, p.list.signal(s, unix.SIGCONT))
	}
	return errors.Join(errs...)
}

// runs reports whether a thread of the process is neither stopped nor dead.
func (p *proc) runs(s stat) (bool, error) {
	pid := strconv.Itoa(s.PID)
	if s.threads < 2 {
		return !s.still(), nil
	}
	threads, err := os.ReadDir("/proc/" + pid + "/task")
	if gone(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the threads of process %s: %w", pid, err)
	}
	for _, thread := range threads {
		one, err := p.stat(pid + "/task/" + thread.Name())
		switch {
		case gone(err):
			continue
		case err != nil:
			return false, fmt.Errorf("read about thread %s: %w", thread.Name(), err)
		case !one.still():
			return true, nil
		}
	}
	return false, nil
}

// still reports whether the thread is stopped, by a signal or by its tracer, or dead.
func (s stat) still() bool {
	switch s.state {
	case 'T', 't', 'Z', 'X', 'x':
		return true
	}
	return false
}
