package apple

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/lib/excerpt"
	"github.com/org/rollout-action/providers/internal/hosted"
)

// dial implements podinit.Dialer: it runs the guest's connector in the container. The first time,
// the same command brings the program there.
func (e *containerEnv) dial(ctx context.Context) (io.ReadWriteCloser, error) {
	if err := e.CheckEnded(); err != nil {
		return nil, err
	}
	s, err := e.installer.Dial(ctx, e.start)
	switch {
	case err == nil:
		return s, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.As(err, new(*environment.Error)):
		return nil, err
	}
	// The guest asks explain whether there is anything to wait for.
	return nil, &environment.Error{Kind: environment.KindLost, Transient: true, Err: fmt.Errorf("run a command in %s: %w", e.Name, err)}
}

// start starts a command in the container.
func (e *containerEnv) start(_ context.Context, args ...string) (hosted.Stream, error) {
	of := append([]string{"exec", "--interactive", "--uid", "0", "--gid", "0", "--workdir", "/", e.id}, args...)
	return e.p.command.stream(of)
}

// stream starts a command with streams, which runs until they are closed.
func (c command) stream(args []string) (hosted.Stream, error) {
	in, to, err := os.Pipe()
	if err != nil {
		return nil, environment.MarkMachineError(err)
	}
	from, out, err := os.Pipe()
	if err != nil {
		return nil, environment.MarkMachineError(errors.Join(err, in.Close(), to.Close()))
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &stream{to: to, from: from, output: bufio.NewReaderSize(from, 64<<10), cancel: cancel, ended: make(chan struct{})}
	cmd := c.prepare(ctx, args)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, &s.said
	err = cmd.Start()
	_, _ = in.Close(), out.Close() // the command has its own
	if err != nil {
		cancel()
		_, _ = to.Close(), from.Close()
		return nil, environment.MarkMachineError(err)
	}
	go s.wait(c, cmd, args[0])
	return s, nil
}

// closeTime is how long a command may take to end when its input has.
const closeTime = 5 * time.Second

// stream is the input and output of a command in a container.
type stream struct {
	to, from *os.File
	output   *bufio.Reader
	said     excerpt.Ends
	cancel   context.CancelFunc
	once     sync.Once
	ended    chan struct{}
	err      error // why the command ended, when ended is closed
}

func (s *stream) wait(c command, cmd *exec.Cmd, verb string) {
	if err := cmd.Wait(); err != nil {
		s.err = c.failure(err, verb, s.said.String())
	}
	close(s.ended)
	s.cancel()
}

// Read implements io.Reader. At the end it returns why the command failed.
func (s *stream) Read(p []byte) (int, error) {
	n, err := s.output.Read(p)
	return n, s.reason(err)
}

// ReadString implements hosted.Stream.
func (s *stream) ReadString(delim byte) (string, error) {
	text, err := s.output.ReadString(delim)
	return text, s.reason(err)
}

// reason returns the command's own error in place of the end of its output.
func (s *stream) reason(err error) error {
	if !errors.Is(err, io.EOF) {
		return err
	}
	select {
	case <-s.ended:
	case <-time.After(closeTime):
	}
	select {
	case <-s.ended:
		if s.err != nil {
			return s.err
		}
	default:
	}
	return err
}

// Write implements io.Writer.
func (s *stream) Write(p []byte) (int, error) { return s.to.Write(p) }

// Close implements io.Closer. The command ends with its input, or is killed.
func (s *stream) Close() error {
	s.once.Do(func() {
		_, _ = s.to.Close(), s.from.Close()
		go func() {
			select {
			case <-s.ended:
			case <-time.After(closeTime):
				s.cancel()
			}
		}()
	})
	return nil
}
