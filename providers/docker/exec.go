package docker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/lib/awake"
)

const (
	killed = 128 + 9 // the exit code of what SIGKILL ended
	// lostGrace is how long the end of a container may take to show: engines that are busy notice
	// it late.
	lostGrace = 30 * time.Second
)

var errSilent = errors.New("the Docker engine does not answer")

// Exec implements environment.Environment.
func (e *containerEnv) Exec(ctx context.Context, script string, opts environment.ExecOptions) (int, error) {
	mark := newMark()
	args, err := command(mark, script)
	if err != nil {
		return -1, &environment.Error{Kind: environment.KindExec, Err: err}
	}
	out := newOutput(mark, opts.Stdout, opts.Stderr)
	return e.execTo(ctx, args, opts, out, nil)
}

// ExecTerminal implements environment.TerminalRunner.
func (e *containerEnv) ExecTerminal(ctx context.Context, script string, opts environment.ExecOptions, t environment.Terminal) (int, error) {
	mark := newMark()
	args, err := command(mark, script)
	if err != nil {
		return -1, &environment.Error{Kind: environment.KindExec, Err: err}
	}
	if opts.Stdin == nil {
		opts.Stdin = neverTyped{}
	}
	out := newOutput(mark+"\r", nil, opts.Stdout) // the terminal adds the carriage return
	return e.execTo(ctx, args, opts, out, &t)
}

// neverTyped is the input of a terminal without a user.
type neverTyped struct{}

func (neverTyped) Read([]byte) (int, error) { return 0, io.EOF }

// execTo runs a command, on a terminal if one is given, and waits for the writers of its output.
func (e *containerEnv) execTo(ctx context.Context, args []string, opts environment.ExecOptions, out *output, t *environment.Terminal) (int, error) {
	cfg := container.ExecOptions{Cmd: args, Env: environ(opts.Env, e.group.past(e.tunnel.variables())), WorkingDir: opts.WorkDir, User: opts.User}
	if t != nil {
		cfg.Tty, cfg.DetachKeys = true, neverDetach
		if t.Size != (environment.TerminalSize{}) { // engines before 1.42 take no size here
			cfg.ConsoleSize = &[2]uint{uint(t.Size.Rows), uint(t.Size.Columns)}
		}
	}
	code, err := e.exec(ctx, cfg, opts, out, t)
	if writing := out.close(); err == nil && writing != nil {
		err = fmt.Errorf("write the command's output: %w", writing)
	}
	return code, err
}

// neverDetach is a key sequence that is never typed. An engine's default sequence begins with
// Ctrl-P, which it would hold back.
const neverDetach = "ctrl-@,ctrl-_,ctrl-@,ctrl-_,ctrl-@,ctrl-_"

// newMark returns the line that the prologue prints for one command.
func newMark() string { return "rollout-exec-" + rand.Text() }

func (e *containerEnv) exec(ctx context.Context, cfg container.ExecOptions, opts environment.ExecOptions, out *output, t *environment.Terminal) (int, error) {
	stdout := writerFunc(out.stdout)
	if cfg.Tty {
		stdout = out.stderr // where the mark is
	}
	p, err := e.start(ctx, cfg, opts.Stdin, stdout, writerFunc(out.stderr))
	if err != nil {
		return -1, err
	}
	defer p.drain(0)
	if t != nil {
		resizing, stop := context.WithCancel(ctx)
		defer stop()
		go p.resize(resizing, *t)
	}
	limited := ctx
	if opts.Timeout > 0 {
		var cancel context.CancelFunc
		limited, cancel = awake.WithTimeoutCause(ctx, opts.Timeout, environment.ErrTimeout)
		defer cancel()
	}
	code, err := p.wait(limited)
	if limited.Err() != nil && err != nil {
		if err = e.end(ctx, p, context.Cause(limited)); !errors.Is(err, errExited) {
			return -1, err
		}
		code, err = p.code(ctx)
	}
	if err != nil {
		return -1, err
	}
	p.drain(0)
	if !out.open {
		return -1, e.notStarted(ctx, p, out)
	}
	e.ran.Store(true)
	if code == notRun && e.isBroken(ctx, p.id) {
		return -1, e.abandon(ctx, fmt.Errorf("follow a command in the container: %w", errCut))
	}
	if err := e.survived(ctx, code); err != nil {
		return code, err
	}
	if reading := p.input.failed.Load(); reading != nil {
		return code, fmt.Errorf("read the command's input: %w", *reading)
	}
	return code, nil
}

// end kills what a command started after cause ended it, and returns cause when all of it is dead,
// or errExited if it ended by itself before.
func (e *containerEnv) end(ctx context.Context, p *process, cause error) error {
	if err := e.killSince(ctx, p); err != nil {
		return err
	}
	p.drain(drainTime)
	return cause
}

// notStarted returns the error for a command whose shell never printed its mark.
func (e *containerEnv) notStarted(ctx context.Context, p *process, out *output) error {
	if err := e.checkRunning(ctx); err != nil {
		return err
	}
	said := strings.TrimSpace(string(out.heldOut) + string(out.heldErr))
	if p.startedBefore(said) {
		return e.unattended(ctx, p)
	}
	if strings.HasPrefix(string(out.mark), said) { // nothing, as a rule
		if err := e.unheard(ctx, p); err != nil {
			return err
		}
	}
	return &environment.Error{
		Kind: environment.KindExec,
		Hint: missingHint,
		Err:  fmt.Errorf("the command could not be started: %s", said),
	}
}

// startedBefore reports whether the engine had begun to start a command when it was asked again. It
// says so in place of the command's output ("Exec command ID has already run", "… is already
// running"); its mark is the id, which no container knows.
func (p *process) startedBefore(said string) bool { return p.asked > 1 && strings.Contains(said, p.id) }

// unattended returns the error for a command that an earlier request has started: it began, and its
// output is lost. Without a process it failed to start.
func (e *containerEnv) unattended(ctx context.Context, p *process) error {
	const doing = "start a command in the container"
	limited, cancel := awake.WithTimeout(context.WithoutCancel(ctx), startGrace)
	defer cancel()
	state, err := e.p.api.ContainerExecInspect(limited, p.id)
	if err == nil && !state.Running && state.Pid == 0 {
		return notBegun(doing, errCut)
	}
	return e.abandon(ctx, fmt.Errorf("%s: %w", doing, errUnattended))
}

// unheard returns the error for a command whose output was lost, and nil if it printed nothing: if
// another command prints nothing either, bash in the container has been changed.
func (e *containerEnv) unheard(ctx context.Context, p *process) error {
	const doing = "hear from a command in the container"
	ctx, cancel := awake.WithTimeout(context.WithoutCancel(ctx), startGrace)
	defer cancel()
	state, err := e.p.api.ContainerExecInspect(ctx, p.id)
	if err == nil && state.Pid == 0 {
		return notBegun(doing, errCut)
	}
	mark := newMark()
	args, _ := command(mark, ":")
	heard := newOutput(mark, nil, nil)
	defer heard.close()
	if probe, err := e.start(ctx, container.ExecOptions{Cmd: args}, nil, writerFunc(heard.stdout), writerFunc(heard.stderr)); err == nil {
		_, err = probe.wait(ctx)
		probe.drain(0)
		if err == nil && !heard.open {
			return nil
		}
	}
	return &environment.Error{Kind: environment.KindLost, Transient: true, Err: fmt.Errorf("%s: %w", doing, errCut)}
}

const missingHint = "the image needs bash, and the working directory and user must exist in it"

var errCut = errors.New("the engine lost its output")

// survived returns an error if a command was killed because its container ended.
func (e *containerEnv) survived(ctx context.Context, code int) error {
	if code != killed {
		return nil
	}
	return e.checkRunning(ctx)
}

// checkRunning returns an error if the container has ended.
func (e *containerEnv) checkRunning(ctx context.Context) error {
	ctx, cancel := awake.WithTimeout(context.WithoutCancel(ctx), lostGrace)
	defer cancel()
	for interval := pollMin; ; interval = min(2*interval, pollMax) {
		// For a while the engine takes a dead container for a running one; but nothing starts in
		// it.
		if !e.ended.Load() && e.canStart(ctx) {
			return nil
		}
		state, err := e.p.api.ContainerInspect(ctx, e.id)
		if err != nil && ctx.Err() == nil {
			return failedInside(environment.KindLost, "look after the container", err)
		}
		if err == nil && state.State != nil && !state.State.Running {
			return e.gone(ctx, state)
		}
		select {
		case <-ctx.Done():
			return nil // it is there, if too full to answer
		case <-time.After(interval):
		}
	}
}

// notFound is the exit code of a program that is not there. The engine 20.10 gives notRun.
const notFound = 127

// canStart reports whether programs can be started: the engine looks for a program that no
// container has, so that nothing of the container's is run. The runtime names that program only if
// it has looked for it inside.
func (e *containerEnv) canStart(ctx context.Context) bool {
	name := "/rollout-" + rand.Text()
	said := &bounded{left: maxHelperErrors}
	p, err := e.start(ctx, container.ExecOptions{Cmd: []string{name}, User: "0:0", WorkingDir: "/"}, nil, said, said)
	if err != nil {
		return false
	}
	code, err := p.wait(ctx)
	p.drain(0)
	return err == nil && (code == notFound || code == notRun && strings.Contains(said.String(), name))
}

// ownCommand runs a script of ours in a container in which nothing else has run yet, whatever the
// image has made of the environment: without BASH_ENV and functions that are variables (-p), as
// root, and where there always is a directory.
func ownCommand(script string, args ...string) container.ExecOptions {
	return container.ExecOptions{
		Cmd:        append([]string{"bash", "-p", "-c", script, "bash"}, args...),
		Env:        []string{"LC_ALL=C"},
		User:       "0:0",
		WorkingDir: "/",
	}
}

// unusable returns the error for a container that refused to start a command. If it does not run,
// the error says why; if it does, and the engine may think better of it, the error is ErrNotBegun.
func (e *containerEnv) unusable(ctx context.Context, doing string, err error) error {
	if isContext(err) || isConnection(err) {
		return failedInside(environment.KindExec, doing, err)
	}
	ctx, cancel := awake.WithTimeout(context.WithoutCancel(ctx), startGrace)
	defer cancel()
	state, lost := e.p.api.ContainerInspect(ctx, e.id)
	if lost != nil {
		return failedInside(environment.KindLost, doing, lost)
	}
	if state.State != nil && !state.State.Running {
		return e.gone(ctx, state)
	}
	if isRefusal(err) {
		return wrapped(environment.KindExec, doing, err)
	}
	return notBegun(doing, err)
}

// isRefusal reports whether the engine rejected the request as invalid.
func isRefusal(err error) bool {
	return cerrdefs.IsInvalidArgument(err) || cerrdefs.IsPermissionDenied(err) || cerrdefs.IsNotImplemented(err)
}

// gone returns the error for a container that does not run any more. Before anything did run in it
// the image is at fault.
func (e *containerEnv) gone(ctx context.Context, state container.InspectResponse) error {
	lost := &environment.Error{
		Kind: environment.KindLost,
		Err:  fmt.Errorf("the container is not running any more (exit code %d)", state.State.ExitCode),
	}
	if state.State.OOMKilled {
		lost.Err = fmt.Errorf("%w: %w", lost.Err, environment.ErrOutOfMemory)
	}
	if e.ended.Load() || e.ran.Load() {
		return lost
	}
	lost.Kind = environment.KindStart
	lost.Output = e.lastLogs(ctx)
	if state.State.OOMKilled {
		return lost
	}
	if others := e.p.otherPlatform(ctx, state); others != "" {
		lost.Hint = fmt.Sprintf("the image is for %s, and the engine runs %s: choose another image, or a machine of that platform", others, e.p.platform())
	} else if state.Config != nil && len(state.Config.Entrypoint) > 0 {
		lost.Hint = fmt.Sprintf("the image's ENTRYPOINT %q must run the command that it is given, as exec \"$@\" does", state.Config.Entrypoint)
	} else {
		lost.Hint = "the image needs bash"
	}
	return lost
}

// otherPlatform returns the platform of a container's image if the engine can only emulate it, else
// "".
func (p *Provider) otherPlatform(ctx context.Context, state container.InspectResponse) string {
	if state.ContainerJSONBase == nil {
		return ""
	}
	image, err := p.api.ImageInspect(ctx, state.Image)
	if err != nil { // it is gone, and the hint says less
		return ""
	}
	return lacks([]string{image.Os + "/" + image.Architecture}, p.platform())
}
