//go:build linux

package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/awake"
	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/providers/internal/wire"
)

// killTimeout bounds the ending of a command and of all that it started.
const killTimeout = time.Minute

// Exec implements environment.Environment.
func (e *sandboxEnv) Exec(ctx context.Context, script string, opts environment.ExecOptions) (int, error) {
	return e.exec(ctx, script, opts, nil)
}

// exec runs a script, on a terminal if one is given.
func (e *sandboxEnv) exec(ctx context.Context, script string, opts environment.ExecOptions, t *environment.Terminal) (int, error) {
	parts, err := environment.SplitScript(script)
	if err != nil {
		return -1, &environment.Error{Kind: environment.KindExec, Err: err}
	}
	if err := ctx.Err(); err != nil {
		return -1, err
	}
	command := wire.Command{
		Args:         append([]string{"bash", "-c", environment.EvalArguments, "bash"}, parts...),
		Env:          environ(e.img.Env, e.env, opts.Env, e.network.variables()),
		Dir:          cmp.Or(opts.WorkDir, e.img.WorkDir),
		User:         cmp.Or(opts.User, e.img.User),
		MaxProcesses: e.perUser,
	}
	limited := ctx
	if opts.Timeout > 0 {
		var cancel context.CancelFunc
		limited, cancel = awake.WithTimeoutCause(ctx, opts.Timeout, environment.ErrTimeout)
		defer cancel()
	}
	sinks := environment.NewSinks(opts.Stdout, opts.Stderr)
	if e.box.running() {
		e.entrypoint.ran.Store(true)
	}
	var code int
	if t == nil {
		code, err = e.box.run(limited, command, opts.Stdin, sinks.Stdout, sinks.Stderr)
	} else {
		code, err = e.box.runOnTerminal(limited, command, *t, opts.Stdin, sinks.Stdout)
	}
	writing := sinks.Close()
	switch refused := new(requestError); {
	case err == nil && writing != nil:
		return code, fmt.Errorf("write the command's output: %w", writing)
	case err == nil:
		return code, nil
	case errors.Is(err, errInput):
		return code, err
	case errors.Is(err, errNotEnded):
		e.box.end()
		return -1, &environment.Error{Kind: environment.KindLost, Err: fmt.Errorf("the sandbox was ended: %w", err)}
	case limited.Err() != nil:
		return -1, context.Cause(limited)
	case errors.As(err, &refused):
		return -1, &environment.Error{
			Kind: environment.KindExec, Err: fmt.Errorf("the command could not be started: %w", err), Hint: e.execHint(command.User),
		}
	}
	return -1, e.lost("run a command in the sandbox")
}

// execHint returns the hint for a command that could not be started.
func (e *sandboxEnv) execHint(user string) string {
	if e.p.store.mode.lacksUser(user) {
		return oneIDHint
	}
	return "the image needs bash, and the working directory and user must exist in it"
}

const oneIDHint = "this machine grants you one user id, so root is the only user in a sandbox: for others install newuidmap (the package uidmap) " +
	"and 65536 ids for you in /etc/subuid and /etc/subgid, run rollout with sudo, or use environment.type: docker"

var (
	errInput    = errors.New("read the command's input")
	errNotEnded = errors.New("processes that the command started could not be ended")
)

// run runs a command until it exits. If ctx ends, it ends the command and all that it started.
func (b *box) run(ctx context.Context, command wire.Command, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
	started, err := b.startCommand(command, stdin, stdout, stderr)
	if err != nil {
		return -1, err
	}
	answer, err := started.wait(ctx)
	return answer.Code, err
}

// runOnTerminal is run with a new terminal.
func (b *box) runOnTerminal(ctx context.Context, command wire.Command, t environment.Terminal, stdin io.Reader, stdout io.Writer) (int, error) {
	started, err := b.startOnTerminal(ctx, command, t, stdin, stdout)
	if err != nil {
		return -1, err
	}
	answer, err := started.wait(ctx)
	return answer.Code, err
}

// started is a command whose start was requested.
type started struct {
	b         *box
	id        int64
	answers   <-chan wire.Answer
	in        *input
	out, errs *output // the same one if both streams go to the same writer
}

// startCommand requests the start of a command. stdout and stderr must be of comparable types and may be the same
// writer. The caller must call wait or closeStreams.
func (b *box) startCommand(command wire.Command, stdin io.Reader, stdout, stderr io.Writer) (*started, error) {
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
	errs := out // one writer gets one pipe, which keeps the order of what is written
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
	s := &started{b: b, in: in, out: out, errs: errs}
	if s.id, s.answers, err = b.send(wire.Request{Op: wire.Exec, Command: &command}, files...); err != nil {
		s.closeStreams()
		return nil, err
	}
	return s, nil
}

// closeStreams closes the command's input and discards the rest of its output.
func (s *started) closeStreams() {
	s.in.close()
	s.out.discardRest()
	s.errs.discardRest()
}

// wait waits for the end of a command and of its output. If ctx ends, it ends the command and all that it started.
func (s *started) wait(ctx context.Context) (wire.Answer, error) {
	defer s.closeStreams()
	answer, err := s.waitExit(ctx)
	exited := time.Now()
	s.out.drain(exited)
	s.errs.drain(exited)
	if failed := s.in.failed.Load(); err == nil && failed != nil {
		err = fmt.Errorf("%w: %w", errInput, *failed)
	}
	return answer, err
}

// waitExit waits for the end of a command, or ends it when ctx ends.
func (s *started) waitExit(ctx context.Context) (wire.Answer, error) {
	select {
	case answer := <-s.answers:
		return answer, problemOf(answer)
	case <-s.b.ended:
		if answer, ok := pollAnswer(s.answers); ok {
			return answer, problemOf(answer)
		}
		return wire.Answer{Code: -1}, errGone
	case <-ctx.Done():
		return wire.Answer{Code: -1}, s.b.kill(ctx, s.id)
	}
}

// kill ends a command and all that it started.
func (b *box) kill(ctx context.Context, id int64) error {
	limited, cancel := awake.WithTimeout(context.WithoutCancel(ctx), killTimeout)
	defer cancel()
	if _, err := b.call(limited, wire.Request{Op: wire.Kill, Target: id}); err != nil {
		if errors.Is(err, errGone) {
			return err
		}
		return fmt.Errorf("%w: %w", errNotEnded, err)
	}
	return ctx.Err()
}

// environ merges the variables of an image and of maps, of which later ones win. The result is sorted.
func environ(image []string, more ...map[string]string) []string {
	all := map[string]string{"PATH": defaultPath, "HOSTNAME": hostname}
	for _, v := range image {
		if key, value, ok := strings.Cut(v, "="); ok {
			all[key] = value
		}
	}
	for _, m := range more {
		maps.Copy(all, m)
	}
	list := make([]string, 0, len(all))
	for _, key := range slices.Sorted(maps.Keys(all)) {
		list = append(list, key+"="+all[key])
	}
	return list
}
