package modal

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"sync"

	sdk "github.com/modal-labs/modal-client/go"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/hosted"
)

// dial implements podinit.Dialer: it runs the guest's connector in a sandbox. The first time, the
// same exec brings the program there.
func (e *sandboxEnv) dial(ctx context.Context) (io.ReadWriteCloser, error) {
	if err := e.CheckEnded(); err != nil {
		return nil, err
	}
	s, err := e.installer.Dial(ctx, func(ctx context.Context, command ...string) (hosted.Stream, error) {
		return run(ctx, e.sandbox, command...)
	})
	switch {
	case err == nil:
		return s, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case isGone(err):
		return nil, hosted.Lost("sandbox %s is gone", e.ID())
	}
	failure := failed(ctx, environment.KindLost, "run a command in sandbox "+e.ID(), err)
	if own := new(environment.Error); errors.As(failure, &own) && !own.Refused && own.Kind == environment.KindLost {
		own.Transient = true // the guest asks explain whether there is anything to wait for
	}
	return nil, failure
}

// run starts a command in a sandbox. Its stderr is discarded.
func run(ctx context.Context, sandbox *sdk.Sandbox, command ...string) (hosted.Stream, error) {
	process, err := sandbox.Exec(ctx, command, &sdk.SandboxExecParams{Stderr: sdk.Ignore, Workdir: "/"})
	if err != nil {
		return nil, err
	}
	s := &stream{process: process, output: bufio.NewReaderSize(process.Stdout, 64<<10)}
	s.changed.L = &s.mu
	go s.send()
	return s, nil
}

const (
	// maxUnsent bounds what waits to be sent; a writer waits for room.
	maxUnsent = 2 << 20
	// maxSend is the most that one request has: well below the limit of a message.
	maxSend = 1 << 20
)

// stream is the input and output of a command in a sandbox. Each write of Modal's client is a
// request, which takes a round trip: data written meanwhile goes with the next one.
type stream struct {
	process *sdk.ContainerProcess
	output  *bufio.Reader

	mu      sync.Mutex
	changed sync.Cond
	unsent  []byte
	closed  bool
	err     error
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) { return s.output.Read(p) }

// ReadString implements hosted.Stream.
func (s *stream) ReadString(delim byte) (string, error) { return s.output.ReadString(delim) }

// Write implements io.Writer. It returns the error of an earlier request.
func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for written := 0; written < len(p); {
		for len(s.unsent) >= maxUnsent && !s.closed {
			s.changed.Wait()
		}
		if s.closed {
			return written, cmp.Or(s.err, io.ErrClosedPipe)
		}
		n := min(maxUnsent-len(s.unsent), len(p)-written)
		s.unsent = append(s.unsent, p[written:written+n]...)
		written += n
		s.changed.Broadcast()
	}
	return len(p), nil
}

// send sends written data until the stream is closed.
func (s *stream) send() {
	for {
		s.mu.Lock()
		for len(s.unsent) == 0 && !s.closed {
			s.changed.Wait()
		}
		n := min(len(s.unsent), maxSend)
		next := s.unsent[:n:n]
		s.unsent = s.unsent[n:]
		closed := s.closed
		s.mu.Unlock()
		if closed {
			_ = s.process.Stdin.Close() // the command ends; one that is gone needs no end
			return
		}
		_, err := s.process.Stdin.Write(next)
		s.mu.Lock()
		if s.err = err; err != nil {
			s.closed = true
		}
		s.changed.Broadcast()
		s.mu.Unlock()
		if err != nil {
			_ = s.process.Stdout.Close() // the reader returns
			return
		}
	}
}

// Close implements io.Closer.
func (s *stream) Close() error {
	s.mu.Lock()
	s.closed = true
	s.changed.Broadcast()
	s.mu.Unlock()
	return s.process.Stdout.Close()
}
