package environment

import (
	"errors"
	"io"
	"sync"
	"time"
)

const (
	// sinkBuffer is how much output of one stream is held for a writer that is slow.
	sinkBuffer = 1 << 20
	// sinkPatience is how long a writer may take for a full buffer.
	sinkPatience = 5 * time.Second
)

var errStuck = errors.New("the writer of the command's output blocked; what came after that was thrown away")

// Sinks hand a command's two output streams on to their writers, for providers: writers that fail or
// block never stop the command (see Environment.Exec). Writes to Stdout and Stderr take all of what they
// are given and never fail; each is for one goroutine at a time.
type Sinks struct {
	Stdout, Stderr io.Writer

	sinks []*sink
}

// NewSinks begins to hand on. Nil writers are for output that is thrown away. If both are the same
// writer, it is never written to twice at a time, as os/exec has it.
func NewSinks(stdout, stderr io.Writer) *Sinks {
	s := &Sinks{Stdout: io.Discard, Stderr: io.Discard}
	if stdout != nil {
		s.Stdout = s.add(stdout)
	}
	switch {
	case stderr == nil:
	case same(stdout, stderr):
		s.Stderr = s.Stdout
	default:
		s.Stderr = s.add(stderr)
	}
	return s
}

func (s *Sinks) add(w io.Writer) *sink {
	added := newSink(w)
	s.sinks = append(s.sinks, added)
	return added
}

// Close waits for the writers, but not for long if they block, and returns the first error of one.
// The writers are not called any more afterwards.
func (s *Sinks) Close() error {
	var first error
	for _, sink := range s.sinks {
		if err := sink.close(); first == nil {
			first = err
		}
	}
	return first
}

// same compares writers that may be of an incomparable type.
func same(a, b io.Writer) bool {
	defer func() { _ = recover() }()
	return a == b
}

// sink hands output on to a writer from a goroutine of its own, so that a writer that fails or
// blocks never stops the command. After the first error, which includes having blocked for
// sinkPatience, the rest of the output is thrown away.
type sink struct {
	w    io.Writer
	wake chan struct{} // there is something to write, or close was called
	room chan struct{} // the buffer was taken
	done chan struct{} // the goroutine ended

	mu     sync.Mutex
	buffer []byte
	closed bool
	err    error
}

func newSink(w io.Writer) *sink {
	s := &sink{w: w, wake: make(chan struct{}, 1), room: make(chan struct{}, 1), done: make(chan struct{})}
	go s.run()
	return s
}

// Write takes all of p and never fails, as its caller must go on reading. It may wait for the writer.
func (s *sink) Write(p []byte) (int, error) {
	var late <-chan time.Time
	for {
		s.mu.Lock()
		if s.err != nil {
			s.mu.Unlock()
			return len(p), nil //nolint:nilerr // as promised above
		}
		if len(s.buffer) == 0 || len(s.buffer)+len(p) <= sinkBuffer {
			s.buffer = append(s.buffer, p...)
			s.mu.Unlock()
			signal(s.wake)
			return len(p), nil
		}
		s.mu.Unlock()
		if late == nil {
			late = time.After(sinkPatience)
		}
		select {
		case <-s.room:
		case <-late:
			s.fail(errStuck)
		}
	}
}

func (s *sink) run() {
	defer close(s.done)
	var spare []byte
	for {
		s.mu.Lock()
		chunk, closed, err := s.buffer, s.closed, s.err
		s.buffer = spare[:0]
		s.mu.Unlock()
		spare = chunk
		if err != nil || closed && len(chunk) == 0 {
			return
		}
		if len(chunk) == 0 {
			<-s.wake
			continue
		}
		signal(s.room)
		n, err := s.w.Write(chunk)
		if err == nil && n < len(chunk) {
			err = io.ErrShortWrite
		}
		if err != nil {
			s.fail(err)
		}
	}
}

// close waits until everything is written, but no longer than sinkPatience for a writer that
// blocks, and returns the first error. The writer is not called any more afterwards.
func (s *sink) close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	signal(s.wake)
	select {
	case <-s.done:
	case <-time.After(sinkPatience):
		s.fail(errStuck)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// fail keeps the first error.
func (s *sink) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
}

// signal wakes who waits for c, or who will.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
