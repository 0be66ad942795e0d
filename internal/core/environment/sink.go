package environment

import (
	"errors"
	"io"
	"sync"
	"time"
)

const (
	// sinkBuffer is the number of bytes of one stream that are buffered for a slow writer.
	sinkBuffer = 1 << 20
	// sinkTimeout is the longest time for which a writer may block while the buffer is full.
	sinkTimeout = 5 * time.Second
)

var errStuck = errors.New("the writer of the command's output blocked; later output was discarded")

// Sinks pass a command's two output streams on to their writers, for providers: writers that fail
// or block never stop the command (see Environment.Exec). Writes to Stdout and Stderr always
// succeed in full; each is for one goroutine at a time.
type Sinks struct {
	Stdout, Stderr io.Writer

	sinks []*sink
}

// NewSinks starts to pass output on. Output for nil writers is discarded. If both writers are the
// same, writes never overlap, as in os/exec.
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

// Close waits for the writers, but not long if they block, and returns their first error. The
// writers are not called afterwards.
func (s *Sinks) Close() error {
	var first error
	for _, sink := range s.sinks {
		if err := sink.close(); first == nil {
			first = err
		}
	}
	return first
}

// same compares writers, which may have an incomparable type.
func same(a, b io.Writer) bool {
	defer func() { _ = recover() }()
	return a == b
}

// sink passes output on to a writer from its own goroutine, so a writer that fails or blocks never
// stops the command. After the first error, including blocking for sinkTimeout, it discards the
// rest of the output.
type sink struct {
	w    io.Writer
	wake chan struct{} // there is output, or close was called
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

// Write takes all of p and never fails, because its caller must keep reading. It may wait for the
// writer.
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
			late = time.After(sinkTimeout)
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

// close waits until everything is written, but at most sinkTimeout for a writer that blocks, and
// returns the first error. The writer is not called afterwards.
func (s *sink) close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	signal(s.wake)
	select {
	case <-s.done:
	case <-time.After(sinkTimeout):
		s.fail(errStuck)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// fail records the first error.
func (s *sink) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
}

// signal wakes the current or next receiver of c.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
