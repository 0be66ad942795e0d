//go:build linux

package sandbox

import (
	"io"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// drainTime is how long output is read after the exit, if a background process holds it open.
	drainTime = 500 * time.Millisecond
	// stallTime is how long a writer may take for nothing at all, before the rest of the output is given up.
	stallTime = 5 * time.Second
	drainPoll = 2 * time.Millisecond
	// pipeSize is more than the default, so that streams take fewer turns.
	pipeSize = 1 << 20
)

// input is what a command reads.
type input struct {
	theirs, ours *os.File // nil if there is no input
	failed       atomic.Pointer[error]
}

func newInput(from io.Reader) (*input, error) {
	if from == nil {
		return &input{}, nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	in := &input{theirs: r, ours: w}
	go func() {
		// A command that finds its input cut off does not know; one that reads no more is no failure.
		_, _ = io.Copy(w, readerFunc(func(p []byte) (int, error) {
			n, err := from.Read(p)
			if err != nil && err != io.EOF {
				in.failed.Store(&err)
			}
			return n, err
		}))
		w.Close()
	}()
	return in, nil
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// close ends the input. What waits for more of it on our side ends when the reader returns.
func (i *input) close() {
	if i.ours != nil {
		i.ours.Close()
	}
}

// output is one stream of a command on its way to a writer.
type output struct {
	ours, theirs *os.File
	taken        atomic.Int64 // bytes out of the pipe
	handed       atomic.Int64 // bytes that the writer took
	left         atomic.Bool
	ended        chan struct{} // nothing more can come
}

// newOutput reads until nothing in the sandbox can write any more. After leave what comes is thrown away, so that
// what the command left in the background neither blocks nor dies of it.
func newOutput(w io.Writer) (*output, error) {
	r, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	wide(theirs)
	o := &output{ours: r, theirs: theirs, ended: make(chan struct{})}
	go func() {
		defer r.Close()
		defer close(o.ended)
		buffer := make([]byte, 64<<10)
		for {
			n, err := r.Read(buffer)
			o.taken.Add(int64(n))
			if n > 0 && !o.left.Load() {
				_, _ = w.Write(buffer[:n])
			}
			o.handed.Add(int64(n))
			if err != nil {
				return
			}
		}
	}()
	return o, nil
}

// wide gives a pipe more room, if there is some left for this user.
func wide(f *os.File) {
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeSize) })
}

// drain waits until the output has ended, or a while after the exit if a background process holds it open. What
// was written before the exit is waited for as long as the writer takes anything.
func (o *output) drain(exited time.Time) {
	target := o.pending() + o.taken.Load() // in this order: at most too much
	select {
	case <-o.ended:
		return
	case <-time.After(time.Until(exited.Add(drainTime))):
	}
	last, since := o.handed.Load(), time.Now()
	for {
		handed := o.handed.Load()
		if handed >= target || handed == o.taken.Load() && o.pending() == 0 {
			return
		}
		if handed != last {
			last, since = handed, time.Now()
		}
		if time.Since(since) > stallTime {
			return
		}
		select {
		case <-o.ended:
			return
		case <-time.After(drainPoll):
		}
	}
}

// pending is how much is in the pipe.
func (o *output) pending() int64 {
	var n int
	raw, err := o.ours.SyscallConn()
	if err == nil {
		_ = raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	}
	return int64(n)
}

func (o *output) leave() { o.left.Store(true) }
