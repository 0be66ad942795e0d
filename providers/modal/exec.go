package modal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	sdk "github.com/modal-labs/modal-client/go"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/hosted"
	"github.com/org/rollout-action/providers/internal/podinit"
)

// dial implements podinit.Dialer: it runs the guest's connector in a sandbox. The first time, the
// same exec brings the program there.
func (e *sandboxEnv) dial(ctx context.Context) (io.ReadWriteCloser, error) {
	if err := e.CheckEnded(); err != nil {
		return nil, err
	}
	var s *stream
	var err error
	if e.installed.Load() {
		s, err = run(ctx, e.sandbox, podinit.Connector)
	} else {
		s, err = e.install(ctx)
	}
	switch {
	case err == nil:
		e.installed.Store(true)
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

var errInstall = errors.New("start Rollout's program")

// install sends the program to the sandbox and starts it.
func (e *sandboxEnv) install(ctx context.Context) (*stream, error) {
	program, err := e.p.program.Read()
	if err != nil {
		return nil, err
	}
	content, compressed := program.Compressed, "1"
	if e.noGzip.Load() {
		content, compressed = program.Plain, "0"
	}
	s, err := run(ctx, e.sandbox, "/bin/sh", "-c", installGuest, "sh", strconv.Itoa(len(content)), compressed)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	writing := make(chan error, 1)
	go func() {
		_, err := s.Write(content)
		writing <- err
	}()
	line, err := s.output.ReadString('\n')
	switch line = strings.TrimSpace(line); {
	case line == guestReady:
		return s, nil
	case line == noGzip:
		e.noGzip.Store(true)
		fallthrough
	case line != "":
		err = fmt.Errorf("%w: %s", errInstall, hosted.OneLine(line))
	case err == nil || errors.Is(err, io.EOF):
		err = fmt.Errorf("%w: it printed nothing: the image needs sh, head, cat and sleep", errInstall)
	}
	s.Close()
	return nil, err
}

// run starts a command in a sandbox. Its stderr is discarded.
func run(ctx context.Context, sandbox *sdk.Sandbox, command ...string) (*stream, error) {
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

// Write implements io.Writer. It returns the error of an earlier request.
func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for written := 0; written < len(p); {
		for len(s.unsent) >= maxUnsent && !s.closed && s.err == nil {
			s.changed.Wait()
		}
		if s.err != nil {
			return written, s.err
		}
		if s.closed {
			return written, io.ErrClosedPipe
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
