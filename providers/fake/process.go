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

// machine has the files and processes of an environment. One lock guards both: a process that was killed changes nothing.
type machine struct {
	mu       sync.Mutex
	root     *node
	storage  int64 // how many bytes may be written; 0: any number
	used     int64
	procs    map[int]*process
	lastPid  int
	live     int
	maxProcs int
	off      bool // no process may start any more
	network  *network
	handed   chan struct{} // closed when the ENTRYPOINT has run its arguments
}

func newMachine(root *node, w *World) *machine {
	return &machine{
		root: root.clone(map[*node]*node{}), procs: map[int]*process{}, maxProcs: 4096,
		network: &network{world: w, local: map[string]string{}, changed: make(chan struct{})}, handed: make(chan struct{}),
	}
}

var errKilled = errors.New("the process has been killed")

// process is a shell or a background job, and what it runs. It is a goroutine: when it is killed, its calls have no effect any
// more, and the goroutine ends when it notices.
type process struct {
	pid, ppid, uid, gid int
	run                 *execution
	ctx                 context.Context
	cancel              context.CancelFunc
	done                chan struct{} // closed at its end
	simple              bool          // a job that is one command: the next shell is this process
	job                 string        // the interpreter's name of this job

	// Guarded by the machine's lock.
	holds bool // the execution's output is open in this background job
	ended bool
	code  int // 128 + signal if it was killed
	deaf  bool
}

// execution has all processes that descend from one Exec.
type execution struct {
	m              *machine
	ctx            context.Context // of all its processes
	cancel         context.CancelFunc
	stdout, stderr *sink
	env            map[string]string // of its first process
	uid, gid       int               // likewise

	// Guarded by the machine's lock.
	killed   bool
	holding  int           // jobs that hold the output open
	released chan struct{} // has an element when one of them ends
}

// start makes a process. A nil parent makes the first one of an execution.
func (x *execution) start(parent *process) (*process, error) {
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
	p := &process{pid: m.lastPid, run: x, uid: x.uid, gid: x.gid, done: make(chan struct{})}
	if parent != nil {
		p.ppid, p.uid, p.gid, p.deaf = parent.pid, parent.uid, parent.gid, parent.deaf
	}
	p.ctx, p.cancel = context.WithCancel(x.ctx)
	m.procs[p.pid] = p
	return p, nil
}

// exit ends p. It returns the exit code, which is another one if p was killed before.
func (p *process) exit(code int) int {
	p.run.m.mu.Lock()
	defer p.run.m.mu.Unlock()
	p.end(code)
	return p.code
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

// dead reports whether p has ended, and how.
func (p *process) dead() (bool, int) {
	p.run.m.mu.Lock()
	defer p.run.m.mu.Unlock()
	return p.ended, p.code
}

// killAll ends all processes but spared, or those of one execution, which can start no others then. When it returns, they do
// nothing any more.
func (m *machine) killAll(of *execution, spared *process) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.procs {
		if p != spared && (of == nil || p.run == of) {
			p.end(128 + int(syscall.SIGKILL))
		}
	}
	if of != nil {
		of.killed = true
		of.cancel()
	}
}

// sweep forgets the processes of an execution that have ended.
func (x *execution) sweep() {
	x.m.mu.Lock()
	defer x.m.mu.Unlock()
	for pid, p := range x.m.procs {
		if p.run == x && p.ended {
			delete(x.m.procs, pid)
		}
	}
}

// signal sends a signal from p to a process; 0 only asks whether it lives.
func (m *machine) signal(p *process, pid int, sig syscall.Signal) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	to := m.procs[pid]
	switch {
	case to == nil || to.ended:
		return syscall.ESRCH
	case p.uid != 0 && p.uid != to.uid:
		return syscall.EPERM
	case sig != 0 && (!to.deaf || sig == syscall.SIGKILL):
		to.end(128 + int(sig))
	}
	return nil
}

// drainFor is how long Exec waits for background jobs that hold the output open.
const drainFor = 500 * time.Millisecond

// drain waits for them, but returns when ctx ends.
func (x *execution) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, drainFor)
	defer cancel()
	for {
		x.m.mu.Lock()
		holding := x.holding
		x.m.mu.Unlock()
		if holding == 0 {
			return
		}
		select {
		case <-x.released:
		case <-ctx.Done():
			return
		}
	}
}

// sink passes output on until it is closed or the writer fails; after that it drops it. Write returns no error.
type sink struct {
	closed atomic.Bool
	mu     *sync.Mutex // of both streams, which may have one writer
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

// close returns the first error of the writer. It waits for a write in progress, but not for long: the writer may block.
func (s *sink) close() error {
	s.closed.Store(true)
	locked := make(chan error, 1)
	go func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		locked <- s.err
	}()
	select {
	case err := <-locked:
		return err
	case <-time.After(drainFor):
		return nil
	}
}
