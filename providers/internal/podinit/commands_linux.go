package podinit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"
	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/initclient"
	"github.com/org/rollout-action/providers/internal/initwire"
	"github.com/org/rollout-action/providers/internal/processes"
)

// command is a command of the client's that has begun.
type command struct {
	cancel context.CancelFunc
	stdin  *io.PipeWriter // nil: it has no input, or it was given already
	sizes  chan environment.TerminalSize
}

var errNoCommand = errors.New("there is no such command")

func (s *server) command(id int64) (*command, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.commands[id]; c != nil {
		return c, nil
	}
	return nil, errNoCommand
}

// exec runs a command: the stream gets frames of its output, and the reply when it has ended.
func (s *server) exec(stream *yamux.Stream, r request) {
	if r.Command == nil {
		return
	}
	ctx, end := context.WithCancelCause(context.Background())
	cancel := func() { end(nil) }
	defer cancel()
	to := &frames{to: stream}
	c := &command{cancel: cancel, sizes: make(chan environment.TerminalSize, 1)}
	var stdin io.Reader
	if r.Stdin {
		reader, writer := io.Pipe()
		stdin, c.stdin = reader, writer
		defer reader.Close()
	}
	s.mu.Lock()
	s.ran = true
	s.commands[r.ID] = c
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.commands, r.ID)
		s.mu.Unlock()
	}()
	started, err := s.start(ctx, r, c, stdin, to)
	if err != nil {
		_ = writeReply(stream, reply{Problem: err.Error(), Kind: kindOf(err)})
		return
	}
	to.write(frameBegun, nil)
	ran := s.measure(ctx, r.Timeout, to, end)
	answer, err := started.Wait(ctx)
	last := reply{Code: answer.Code, Ended: s.ending(), Ran: ran(started.Exited)}
	switch {
	case errors.Is(err, context.Canceled):
		last.Cancelled, last.TimedOut = true, errors.Is(context.Cause(ctx), environment.ErrTimeout)
	case errors.Is(err, initclient.ErrNotEnded):
		last.Problem, last.Kind = err.Error(), initwire.NotEnded
	case errors.Is(err, initclient.ErrInput): // the client knows it better
	case err != nil:
		last.Problem, last.Kind = err.Error(), kindOf(err)
	}
	to.last(last)
}

// measure measures a command that begins now, and ends it with ErrTimeout at its limit, if it has
// one. ran stops that, and returns the time of a command that has exited.
func (s *server) measure(ctx context.Context, limit time.Duration, to *frames, end func(error)) (ran func(exited time.Time) time.Duration) {
	began := time.Now()
	if limit <= 0 {
		return func(exited time.Time) time.Duration { return exited.Sub(began) }
	}
	ctx, stop := context.WithCancel(ctx)
	var k clock
	last, over := began, make(chan struct{})
	go func() {
		defer close(over)
		for step := k.next(limit); step > 0; step = k.next(limit) {
			select {
			case <-time.After(step):
			case <-ctx.Done():
				return
			}
			now := time.Now()
			k.tick(now.Sub(last), s.moment(now, to))
			last = now
		}
		end(environment.ErrTimeout)
	}()
	return func(exited time.Time) time.Duration {
		stop()
		<-over
		return k.used + max(0, min(exited.Sub(last), clockStep))
	}
}

// moment returns the state of the connection for the clock of a command.
func (s *server) moment(now time.Time, to *frames) moment {
	attached, heard := s.link.state()
	m := moment{attached: attached, silent: now.Sub(heard), waits: to.writing.Load()}
	if attached && m.silent < beatEvery {
		return m
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for x := range s.exchanges {
		m.waits = m.waits || x.waits(heard)
	}
	return m
}

func (s *server) start(ctx context.Context, r request, c *command, stdin io.Reader, to *frames) (*initclient.Started, error) {
	if r.Terminal != nil {
		return s.client.StartOnTerminal(ctx, *r.Command, environment.Terminal{Size: *r.Terminal, Resized: c.sizes}, stdin, to.writer(frameStdout))
	}
	stdout := to.writer(frameStdout)
	stderr := stdout
	if !r.Merged {
		stderr = to.writer(frameStderr)
	}
	return s.client.Start(*r.Command, stdin, stdout, stderr)
}

// stdin passes the rest of a stream on as the input of a command.
func (s *server) stdin(stream *yamux.Stream, r request) {
	c, err := s.command(r.ID)
	if err != nil || c.stdin == nil {
		return
	}
	c.stdin.CloseWithError(copyFrames(c.stdin, stream)) // nil is the end of the input
}

func (s *server) resize(r request) error {
	c, err := s.command(r.ID)
	if err != nil || r.Terminal == nil {
		return err
	}
	for {
		select {
		case c.sizes <- *r.Terminal:
			return nil
		default:
		}
		select {
		case <-c.sizes: // only the last one matters
		default:
		}
	}
}

func (s *server) kill(r request) error {
	c, err := s.command(r.ID)
	if err == nil {
		c.cancel()
	}
	return err
}

// frames writes frames to a stream, for several goroutines. After an error it writes nothing: the
// reader is gone.
type frames struct {
	mu      sync.Mutex
	to      io.Writer
	ended   bool
	writing atomic.Bool
}

func (f *frames) write(kind byte, data []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writing.Store(true)
	defer f.writing.Store(false)
	if f.ended {
		return
	}
	f.ended = writeFrame(f.to, kind, data) != nil
}

// last writes the reply. Later writes are left out.
func (f *frames) last(r reply) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.ended {
		_ = writeReply(f.to, r) // if it fails, the client is gone
	}
	f.ended = true
}

// writer returns a writer of frames of one kind. Writing always succeeds: a command must not stop
// because its reader is gone.
func (f *frames) writer(kind byte) io.Writer { return &outputWriter{f, kind} }

type outputWriter struct {
	frames *frames
	kind   byte
}

func (w *outputWriter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(len(rest), maxOutput)
		w.frames.write(w.kind, rest[:n])
		rest = rest[n:]
	}
	return len(p), nil
}

// unpack unpacks the rest of a stream.
func (s *server) unpack(ctx context.Context, stream *yamux.Stream, r request) error {
	reading, err := s.client.Put(ctx, r.Replace, func(w io.Writer) error { return copyFrames(w, stream) })
	if err != nil {
		return err
	}
	return reading
}

// pack writes the file or directory at a path as frames of a tar stream.
func (s *server) pack(stream *yamux.Stream, r request) {
	to := &frames{to: stream}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { // the client closes the stream if it wants no more
		_, _ = io.Copy(io.Discard, stream)
		cancel()
		_ = stream.SetDeadline(time.Unix(1, 0))
	}()
	reading, err := s.client.Get(ctx, initwire.Request{Op: initwire.Pack, Path: r.Path, Prefix: r.Prefix, Plain: true, Itself: true}, func(from io.Reader) error {
		_, err := io.CopyBuffer(struct{ io.Writer }{to.writer(frameStdout)}, from, make([]byte, maxOutput))
		return err
	})
	if err == nil {
		err = reading
	}
	end := reply{Ended: s.ending()}
	if err != nil {
		end.Problem, end.Kind = err.Error(), kindOf(err)
	}
	to.last(end)
}

// killAll ends all other processes of the container, or all that the guest started.
func (s *server) killAll(ctx context.Context) error {
	if s.below {
		ctx, cancel := context.WithTimeout(ctx, killTime)
		defer cancel()
		return processes.KillFamily(ctx)
	}
	for range 1000 {
		if err := unix.Kill(-1, unix.SIGKILL); errors.Is(err, unix.ESRCH) {
			return nil
		} else if err != nil {
			return fmt.Errorf("end all processes: %w", err)
		}
		if !alive() {
			return nil
		}
	}
	return errors.New("processes do not end")
}

// alive reports whether a process other than this one lives: a dead one that is not yet reaped has
// no program.
func alive() bool {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return true
	}
	for _, entry := range entries {
		name := entry.Name()
		if name[0] < '1' || name[0] > '9' || name == "1" {
			continue
		}
		line, err := os.ReadFile("/proc/" + name + "/cmdline")
		if err == nil && len(line) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH) {
			return true
		}
	}
	return false
}
