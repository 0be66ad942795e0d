package fake

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

var (
	errKilled  = errors.New("the process has been killed")
	errNoPipes = errors.New("named pipes cannot be opened in the fake environment")
)

// process is something that can be killed: a shell, a background job, or a command. It runs as a
// goroutine, or within that of its shell; when it is killed its calls have no effect any more, and
// the goroutine ends as soon as it notices.
type process struct {
	pid, ppid int
	run       *execution
	uid, gid  int
	args      string // for ps
	ctx       context.Context
	cancel    context.CancelFunc
	done      chan struct{} // closed at its end
	holds     bool          // has its execution's output open, in the background
	simple    bool          // a job that is one command: the command is the process
	job       string        // what the interpreter calls this job

	// Guarded by the machine's lock.
	ended bool
	code  int // 128 + signal if it was killed
	deaf  bool
}

// execution is all that one Exec started, and what those started in turn.
type execution struct {
	m              *machine
	ctx            context.Context // of all its processes
	cancel         context.CancelFunc
	stdout, stderr *sink
	env            map[string]string // of its first process
	uid, gid       int               // likewise

	// Guarded by the machine's lock.
	killed   bool
	holding  int           // processes that hold the output open
	released chan struct{} // has an element when one let go
	sources  []string      // texts that the source builtin is to read
}

// start makes a process. A nil parent makes the first one of an execution.
func (x *execution) start(parent *process, args string) (*process, error) {
	m := x.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.off || x.killed || parent != nil && parent.ended {
		return nil, errKilled
	}
	if m.live >= m.maxProcs {
		return nil, syscall.EAGAIN
	}
	m.live++
	m.lastPid++
	p := &process{pid: m.lastPid, run: x, uid: x.uid, gid: x.gid, args: args, done: make(chan struct{})}
	if parent != nil {
		p.ppid, p.uid, p.gid, p.deaf = parent.pid, parent.uid, parent.gid, parent.deaf
	}
	p.ctx, p.cancel = context.WithCancel(x.ctx)
	m.procs[p.pid] = p
	return p, nil
}

// hold notes that p keeps the output open.
func (p *process) hold() {
	p.run.m.mu.Lock()
	defer p.run.m.mu.Unlock()
	if !p.ended && !p.holds {
		p.holds = true
		p.run.holding++
	}
}

// exit ends p by itself. It returns its exit code, which is another one if p was killed before.
func (p *process) exit(code int) int {
	p.run.m.mu.Lock()
	defer p.run.m.mu.Unlock()
	p.end(code)
	return p.code
}

// sweep forgets what has ended of an execution whose first process has ended: nobody waits for it.
func (x *execution) sweep() {
	x.m.mu.Lock()
	defer x.m.mu.Unlock()
	for pid, p := range x.m.procs {
		if p.run == x && p.ended {
			delete(x.m.procs, pid)
		}
	}
}

// forget drops an ended process that nobody can ask for.
func (p *process) forget() {
	p.run.m.mu.Lock()
	defer p.run.m.mu.Unlock()
	delete(p.run.m.procs, p.pid)
}

// end is exit under the lock.
func (p *process) end(code int) {
	if p.ended {
		return
	}
	p.ended, p.code = true, code
	p.run.m.live--
	p.cancel()
	close(p.done)
	if p.holds {
		p.run.holding--
		select {
		case p.run.released <- struct{}{}:
		default:
		}
	}
}

// dead tells whether p has ended, and how.
func (p *process) dead() (bool, int) {
	p.run.m.mu.Lock()
	defer p.run.m.mu.Unlock()
	return p.ended, p.code
}

// kill ends everything that the execution started and has not ended, and lets it start nothing more.
// When it returns, none of that does anything any more.
func (x *execution) kill() {
	x.m.mu.Lock()
	defer x.m.mu.Unlock()
	x.killed = true
	for _, p := range x.m.procs {
		if p.run == x {
			p.end(128 + int(syscall.SIGKILL))
		}
	}
	x.cancel()
}

// killAll ends every process of the machine for ever.
func (m *machine) killAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.off = true
	for _, p := range m.procs {
		p.end(128 + int(syscall.SIGKILL))
		p.run.cancel()
	}
}

// signal sends a signal from p to a process; 0 only asks whether it is there.
func (m *machine) signal(p *process, pid int, sig syscall.Signal) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	to := m.procs[pid]
	switch {
	case to == nil || to.ended:
		return syscall.ESRCH
	case p.uid != 0 && p.uid != to.uid:
		return syscall.EPERM
	case sig == 0 || to.deaf && sig != syscall.SIGKILL:
		return nil
	}
	to.end(128 + int(sig))
	return nil
}

// wait lets the processes that hold the output open go on writing, but not for longer than
// drain. It returns early when ctx ends.
func (x *execution) wait(ctx context.Context, drain time.Duration) {
	var timeout <-chan time.Time
	for {
		x.m.mu.Lock()
		holding := x.holding
		x.m.mu.Unlock()
		if holding == 0 {
			return
		}
		if timeout == nil {
			timer := time.NewTimer(drain)
			defer timer.Stop() //nolint:gocritic // is reached once
			timeout = timer.C
		}
		select {
		case <-x.released:
		case <-timeout:
			return
		case <-ctx.Done():
			return
		}
	}
}

// sink hands output on until it is closed or the writer fails; after that it swallows it. Those who
// write never see an error.
type sink struct {
	closed atomic.Bool
	mu     *sync.Mutex // of both streams, for they may have one writer
	w      io.Writer   // nil: nowhere
	err    error
}

func (s *sink) Write(p []byte) (int, error) {
	if s.w == nil || s.closed.Load() {
		return len(p), nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil && !s.closed.Load() {
		_, s.err = s.w.Write(p)
	}
	return len(p), nil
}

// close ends the handing on and returns the first error of the writer. It waits for a write that is
// under way, but not for long: the writer may be stuck.
func (s *sink) close() error {
	s.closed.Store(true)
	if !s.mu.TryLock() {
		locked := make(chan struct{})
		go func() {
			s.mu.Lock()
			close(locked)
		}()
		timer := time.NewTimer(drainFor)
		defer timer.Stop()
		select {
		case <-locked:
		case <-timer.C:
			go func() {
				<-locked
				s.mu.Unlock()
			}()
			return nil
		}
	}
	defer s.mu.Unlock()
	return s.err
}
