//go:build linux

package initclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/lib/awake"
	"github.com/org/rollout-action/providers/internal/initwire"
)

// killTimeout bounds the ending of a command and of all that it started.
const killTimeout = time.Minute

// What can go wrong with a command that began.
var (
	ErrInput    = errors.New("read the command's input")
	ErrNotEnded = errors.New("processes that the command started could not be ended")
)

// Run runs a command until it exits. If ctx ends, it ends the command and all that it started.
func (b *Client) Run(ctx context.Context, command initwire.Command, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
	started, err := b.Start(command, stdin, stdout, stderr)
	if err != nil {
		return -1, err
	}
	answer, err := started.Wait(ctx)
	return answer.Code, err
}

// RunOnTerminal is Run with a new terminal.
func (b *Client) RunOnTerminal(ctx context.Context, command initwire.Command, t environment.Terminal, stdin io.Reader, stdout io.Writer) (int, error) {
	started, err := b.StartOnTerminal(ctx, command, t, stdin, stdout)
	if err != nil {
		return -1, err
	}
	answer, err := started.Wait(ctx)
	return answer.Code, err
}

// Started is a command whose start was requested.
type Started struct {
	b         *Client
	ID        int64 // of the request
	answers   <-chan initwire.Answer
	in        *input
	out, errs *output // the same one if both streams go to the same writer
	// Exited is when the command has exited. It is valid after Wait.
	Exited time.Time
}

// Start requests the start of a command. stdout and stderr must be of comparable types and may be
// the same writer. The caller must call Wait.
func (b *Client) Start(command initwire.Command, stdin io.Reader, stdout, stderr io.Writer) (*Started, error) {
	in, err := newInput(stdin)
	if err != nil {
		return nil, err
	}
	out, err := newOutput(stdout)
	if err != nil {
		in.theirs.Close()
		in.close()
		return nil, err
	}
	errs := out // one writer gets one pipe, which keeps the order of the writes
	if stderr != stdout {
		if errs, err = newOutput(stderr); err != nil {
			in.theirs.Close()
			in.close()
			out.theirs.Close()
			out.discardRest()
			return nil, err
		}
	}
	files := []*os.File{out.theirs, errs.theirs}
	if in.theirs != nil {
		files = slices.Insert(files, 0, in.theirs)
	}
	s := &Started{b: b, in: in, out: out, errs: errs}
	if s.ID, s.answers, err = b.Send(initwire.Request{Op: initwire.Exec, Command: &command}, files...); err != nil {
		s.closeStreams()
		return nil, err
	}
	return s, nil
}

// closeStreams closes the command's input and discards the rest of its output.
func (s *Started) closeStreams() {
	s.in.close()
	s.out.discardRest()
	s.errs.discardRest()
}

// Wait waits for the end of a command and of its output. If ctx ends, it ends the command and all
// that it started.
func (s *Started) Wait(ctx context.Context) (initwire.Answer, error) {
	defer s.closeStreams()
	answer, err := s.waitExit(ctx)
	s.Exited = time.Now()
	s.out.drain(s.Exited, s.b.stall())
	s.errs.drain(s.Exited, s.b.stall())
	if failed := s.in.failed.Load(); err == nil && failed != nil {
		err = fmt.Errorf("%w: %w", ErrInput, *failed)
	}
	return answer, err
}

// waitExit waits for the end of a command, or ends it when ctx ends.
func (s *Started) waitExit(ctx context.Context) (initwire.Answer, error) {
	select {
	case answer := <-s.answers:
		return answer, problemOf(answer)
	case <-s.b.ended:
		if answer, ok := pollAnswer(s.answers); ok {
			return answer, problemOf(answer)
		}
		return initwire.Answer{Code: -1}, ErrGone
	case <-ctx.Done():
		if answer, ok := pollAnswer(s.answers); ok { // it has ended by itself before
			return answer, problemOf(answer)
		}
		return initwire.Answer{Code: -1}, s.b.killCommand(ctx, s.ID)
	}
}

// killCommand ends a command and all that it started.
func (b *Client) killCommand(ctx context.Context, id int64) error {
	limited, cancel := awake.WithTimeout(context.WithoutCancel(ctx), killTimeout)
	defer cancel()
	if _, err := b.Call(limited, initwire.Request{Op: initwire.Kill, Target: id}); err != nil {
		if errors.Is(err, ErrGone) {
			return err
		}
		return fmt.Errorf("%w: %w", ErrNotEnded, err)
	}
	return ctx.Err()
}
