package podinit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/lib/awake"
	"github.com/org/rollout-action/providers/internal/initwire"
)

// Exec implements environment.Environment.
func (e *Environment) Exec(ctx context.Context, script string, opts environment.ExecOptions) (int, error) {
	return e.exec(ctx, script, opts, nil)
}

// ExecTerminal implements environment.TerminalRunner.
func (e *Environment) ExecTerminal(ctx context.Context, script string, opts environment.ExecOptions, t environment.Terminal) (int, error) {
	opts.Stderr = nil
	return e.exec(ctx, script, opts, &t)
}

var (
	errInput    = errors.New("read the command's input")
	errNotEnded = errors.New("processes that the command started could not be ended")
)

// exec runs a script, on a terminal if one is given.
func (e *Environment) exec(ctx context.Context, script string, opts environment.ExecOptions, t *environment.Terminal) (int, error) {
	parts, err := environment.SplitScript(script)
	if err != nil {
		return -1, &environment.Error{Kind: environment.KindExec, Err: err}
	}
	if err := ctx.Err(); err != nil {
		return -1, err
	}
	limited, cancel := e.overdue(ctx, opts.Timeout)
	defer cancel()
	r := request{Op: opExec, ID: e.commands.Add(1), Stdin: opts.Stdin != nil, Timeout: opts.Timeout, Command: &initwire.Command{
		Args: append([]string{"bash", "-c", environment.EvalArguments, "bash"}, parts...),
		Env:  e.environ(opts.Env, e.variables()),
		Dir:  cmp.Or(opts.WorkDir, e.opts.Image.WorkDir),
		User: cmp.Or(opts.User, e.opts.Image.User),
	}}
	if t != nil {
		r.Terminal = &t.Size
	}
	sinks := environment.NewSinks(opts.Stdout, opts.Stderr)
	r.Merged = sinks.Stdout == sinks.Stderr && opts.Stdout != nil
	answer, err := e.run(limited, r, opts.Stdin, sinks, t, nil)
	writing := sinks.Close()
	refused := new(guestError)
	if opts.Ran != nil {
		*opts.Ran = answer.Ran
	}
	switch {
	case err == nil && answer.TimedOut:
		return -1, environment.ErrTimeout
	case err == nil && writing != nil:
		return answer.Code, fmt.Errorf("write the command's output: %w", writing)
	case err == nil:
		return answer.Code, nil
	case errors.Is(err, errInput):
		return answer.Code, err
	case errors.Is(err, errNotEnded):
		return -1, &environment.Error{Kind: environment.KindLost, Err: err}
	case limited.Err() != nil:
		return -1, context.Cause(limited)
	case errors.As(err, &refused):
		return -1, &environment.Error{
			Kind: environment.KindExec, Err: fmt.Errorf("the command could not be started: %w", err), Hint: execHint,
		}
	}
	return -1, e.failed(ctx, environment.KindLost, "run a command in the container", err)
}

// overdueTime is how much longer than its limit a command may take, before the client ends it: the
// guest does not answer, although there is a connection to it.
const overdueTime = 2 * time.Minute

// overdue returns a context that ends when a command has not ended long after its limit, which the
// guest enforces. Time without a connection does not count, nor is there a limit if timeout is 0.
func (e *Environment) overdue(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout <= 0 {
		return ctx, func() {}
	}
	limited, cancel := context.WithCancelCause(ctx)
	go func() {
		for left := timeout + overdueTime; left > 0; {
			step := min(left, time.Second)
			if !awake.Sleep(limited, step) {
				return
			}
			if attached, _ := e.link.state(); attached {
				left -= step
			}
		}
		cancel(environment.ErrTimeout)
	}()
	return limited, func() { cancel(nil) }
}

// running is a command that the guest runs.
type running struct {
	e     *Environment
	r     request
	begun chan struct{} // closed when it has begun
	ended chan struct{} // closed when the guest has answered, or cannot
	// onBegun, unless it is nil, is called when it has begun.
	onBegun func()
	// Set when it has ended.
	answer reply
	err    error
}

// run runs a command until it exits. If ctx ends, it ends the command and all that it started.
// begun, unless it is nil, is called when it has begun.
func (e *Environment) run(ctx context.Context, r request, stdin io.Reader, sinks *environment.Sinks, t *environment.Terminal, begun func()) (reply, error) {
	// Not with ctx: when that ends, the guest's report on the end of the command is still wanted.
	whole := context.WithoutCancel(ctx)
	stream, done, err := e.open(whole, r)
	if err != nil {
		return reply{}, fmt.Errorf("%w: %w", environment.ErrNotBegun, err)
	}
	defer done()
	c := &running{e: e, r: r, begun: make(chan struct{}), ended: make(chan struct{}), onBegun: begun}
	go c.read(whole, stream, sinks)
	input := make(chan error, 1)
	if stdin != nil {
		go func() { input <- c.sendInput(whole, stdin) }()
	}
	if t != nil && t.Resized != nil {
		go c.sendSizes(whole, t.Resized)
	}
	select {
	case <-c.ended:
	case <-ctx.Done():
		if err := c.kill(ctx); err != nil {
			return reply{}, err
		}
	}
	if c.err != nil {
		return c.answer, c.err
	}
	select {
	case err := <-input:
		if err != nil {
			return c.answer, fmt.Errorf("%w: %w", errInput, err)
		}
	default: // its reader is gone
	}
	return c.answer, nil
}

// read passes the output on until the command has ended.
func (c *running) read(ctx context.Context, stream io.Reader, sinks *environment.Sinks) {
	defer close(c.ended)
	answer, err := readFrames(stream, func(kind byte, data []byte) error {
		switch kind {
		case frameBegun:
			close(c.begun)
			if c.onBegun != nil {
				c.onBegun()
			}
		case frameStdout:
			_, _ = sinks.Stdout.Write(data) // never fails
		case frameStderr:
			_, _ = sinks.Stderr.Write(data)
		}
		return nil
	})
	switch {
	case err == nil && answer.Kind == initwire.NotEnded:
		err = fmt.Errorf("%w: %s", errNotEnded, answer.Problem)
	case err == nil:
		err = problemOf(answer)
	default:
		err = c.e.broken(ctx, err)
	}
	c.answer, c.err = answer, err
}

// kill ends the command and all that it started, and returns why it was ended; nil if it has ended
// by itself and only its limit was the reason.
func (c *running) kill(ctx context.Context) error {
	limited, cancel := awake.WithTimeout(context.WithoutCancel(ctx), killTime)
	defer cancel()
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		// The guest may not know the command yet: a request can be overtaken.
		_, _ = c.e.ask(limited, request{Op: opKill, ID: c.r.ID}) // the answer to the command says whether it has ended
		select {
		case <-c.ended:
			switch {
			case c.err != nil:
				return c.err
			case !c.answer.Cancelled && errors.Is(context.Cause(ctx), environment.ErrTimeout):
				return nil
			default:
				return ctx.Err()
			}
		case <-time.After(pause):
		case <-limited.Done():
			return fmt.Errorf("%w: the container does not answer", errNotEnded)
		}
	}
}

// sendInput passes the command's input on. It returns the error of from.
func (c *running) sendInput(ctx context.Context, from io.Reader) error {
	select {
	case <-c.begun:
	case <-c.ended:
		return nil
	}
	stream, done, err := c.e.open(ctx, request{Op: opStdin, ID: c.r.ID})
	if err != nil {
		return nil // the command's own stream says it
	}
	defer done()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-c.ended: // its reader is gone
			reset(stream)
		case <-stop:
		}
	}()
	var failed error
	_, _ = io.Copy(frameWriter{stream, frameStdout}, readerFunc(func(p []byte) (int, error) {
		n, err := from.Read(p)
		if err != nil && err != io.EOF {
			failed = err
		}
		return n, err
	}))
	_ = writeReply(stream, reply{}) // the command does not see why its input ended early
	<-c.ended                       // the stream stays until the guest has read all
	return failed
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func (c *running) sendSizes(ctx context.Context, sizes <-chan environment.TerminalSize) {
	select {
	case <-c.begun:
	case <-c.ended:
		return
	}
	for {
		select {
		case size := <-sizes:
			_, _ = c.e.ask(ctx, request{Op: opResize, ID: c.r.ID, Terminal: &size}) // the command works without it
		case <-c.ended:
			return
		}
	}
}
