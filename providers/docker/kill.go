package docker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/lib/awake"
	"github.com/org/rollout-action/providers/docker/internal/killer"
)

const (
	// beginGrace is how long a command that is to be killed may take to begin, so that it can be.
	beginGrace = 5 * time.Second
	// killGrace bounds the ending of a command and all that it started.
	killGrace = time.Minute
	// killTime is how long the killer tries. It leaves time for the engine.
	killTime = 20 * time.Second
)

var (
	errUnknownStart = errors.New("it is not known when it began")
	// errExited says that there was nothing to end: the command had ended by itself.
	errExited = errors.New("the command has ended by itself")
)

// killSince kills the command p and everything that it started, without any program of the
// container: the engine reports its process and pauses the container while a killer, which is this
// program in a separate container, finds and kills the processes. It returns errExited if the
// command ended by itself before. If it cannot be done, it kills the container and returns
// KindLost.
func (e *containerEnv) killSince(ctx context.Context, p *process) error {
	ctx, cancel := awake.WithTimeout(context.WithoutCancel(ctx), killGrace)
	defer cancel()
	failure := e.tryKill(ctx, p)
	if failure == nil || errors.Is(failure, errExited) {
		return failure
	}
	return e.abandon(ctx, fmt.Errorf("the command's processes could not be killed, so the container was: %w", failure))
}

// abandon kills a container with processes that could not be killed, and returns KindLost.
func (e *containerEnv) abandon(ctx context.Context, why error) error {
	lost := &environment.Error{Kind: environment.KindLost, Err: why}
	if known := new(environment.Error); errors.As(why, &known) {
		lost.Hint = known.Hint
	}
	ctx, cancel := awake.WithTimeout(context.WithoutCancel(ctx), cleanupGrace)
	defer cancel()
	err := persist(ctx, func() error { return e.p.api.ContainerKill(ctx, e.id, "KILL") })
	if err != nil && !isGone(err) {
		lost.Err = fmt.Errorf("%w (killing it failed, too: %w)", lost.Err, err)
	}
	return lost
}

func (e *containerEnv) tryKill(ctx context.Context, p *process) error {
	pid, err := p.pid(ctx)
	if err != nil {
		return err
	}
	if _, err := e.p.killers.get(ctx, e.p, e.image); err != nil { // before anything is held still
		return fmt.Errorf("start the container that ends commands: %w", err)
	}
	release, notHeld := e.hold(ctx)
	ask, err := e.killRequest(ctx, p, pid)
	if err == nil && notHeld == nil {
		// Everything is still: all are dead before they can do anything else.
		ask.Op = killer.Strike
		_, err = e.ask(ctx, ask)
	}
	err = errors.Join(err, release(ctx))
	if err != nil {
		return err
	}
	// Engines that cannot hold a container still: then processes are stopped one by one.
	ask.Op = killer.Kill
	_, err = e.ask(ctx, ask)
	return err
}

// hold pauses all processes of the container until release is called, which is safe even after an
// error. It fails if the engine cannot pause containers, or a busy kernel does not do so in time.
func (e *containerEnv) hold(ctx context.Context) (release func(context.Context) error, err error) {
	err = persist(ctx, func() error { return e.p.api.ContainerPause(ctx, e.id) })
	if err != nil && e.isFree(ctx) {
		return func(context.Context) error { return nil }, fmt.Errorf("pause the container: %w", err)
	}
	return func(ctx context.Context) error {
		err := persist(ctx, func() error { return e.p.api.ContainerUnpause(ctx, e.id) })
		if err != nil && !e.isFree(ctx) {
			return fmt.Errorf("unpause the container: %w", err)
		}
		return nil
	}, nil
}

// isFree reports whether the container is not paused: an engine may carry out a request and fail to
// answer.
func (e *containerEnv) isFree(ctx context.Context) bool {
	state, err := e.p.api.ContainerInspect(ctx, e.id)
	return err == nil && state.State != nil && !state.State.Paused
}

// killRequest returns the request that ends a command: when it began, and which commands in the
// container are not part of it. pid is its process.
func (e *containerEnv) killRequest(ctx context.Context, p *process, pid int) (killer.Request, error) {
	state, err := e.p.api.ContainerInspect(ctx, e.id)
	if err != nil {
		return killer.Request{}, err
	}
	if state.State == nil || !state.State.Running {
		return killer.Request{}, errors.New("the container is not running any more")
	}
	ask := killer.Request{Op: killer.Find, First: state.State.Pid, Root: pid, Seconds: killTime.Seconds()}
	found, err := e.ask(ctx, ask)
	if err != nil {
		return killer.Request{}, err
	}
	// Only now: as the command's process is still there, none that was found can be another one
	// with its id.
	now, err := e.p.api.ContainerExecInspect(ctx, p.id)
	switch {
	case err != nil:
		return killer.Request{}, err
	case !now.Running:
		return killer.Request{}, errExited
	case found.Gone || now.Pid != pid:
		return killer.Request{}, fmt.Errorf("the engine does not say which process it is (its runtime may hide that)")
	}
	ask.Start = found.Start
	for _, id := range state.ExecIDs {
		if id == p.id {
			continue
		}
		// One that is forgotten has ended.
		if other, err := e.p.api.ContainerExecInspect(ctx, id); err == nil && other.Running && other.Pid > 0 {
			ask.Others = append(ask.Others, other.Pid)
		}
	}
	return ask, nil
}

// pid returns the id of the command's process, as the engine knows it. It waits for a command that
// is about to begin.
func (p *process) pid(ctx context.Context) (int, error) {
	ctx, cancel := awake.WithTimeout(ctx, beginGrace)
	defer cancel()
	for {
		state, err := p.e.p.api.ContainerExecInspect(ctx, p.id)
		switch {
		case err != nil:
			return 0, err
		case state.Running && state.Pid > 0:
			return state.Pid, nil
		case !state.Running && (state.Pid > 0 || p.over()):
			return 0, errExited
		}
		select {
		case <-ctx.Done():
			return 0, errUnknownStart
		case <-time.After(pollMin / 10):
		}
	}
}

// over reports whether the engine has ended the output.
func (p *process) over() bool {
	select {
	case <-p.ended:
		return p.cut == nil
	default:
		return false
	}
}

// killerConfig returns the configuration of a killer's container. It runs this program alone, which
// sees the engine's processes and may signal them. It runs nothing of the image.
func killerConfig(image string, labels environment.Labels, remapped bool) (*container.Config, *container.HostConfig) {
	host := &container.HostConfig{
		PidMode:     "host",
		NetworkMode: networkNone,
		CapDrop:     []string{"ALL"},
		CapAdd:      []string{"KILL", "SYS_PTRACE"}, // SYS_PTRACE: to see which container a process is in
		SecurityOpt: []string{"no-new-privileges"},
		LogConfig:   container.LogConfig{Type: "none"},
		AutoRemove:  true,
	}
	if remapped {
		host.UsernsMode = "host"
	}
	return &container.Config{
		Image:        image,
		Entrypoint:   []string{programDir + "/" + killer.Role},
		Env:          []string{"GOMAXPROCS=2", "GOGC=50", "GOTRACEBACK=single", "GODEBUG="},
		User:         "0:0",
		WorkingDir:   "/",
		Labels:       labels.Map(),
		OpenStdin:    true, // it ends with its input
		StdinOnce:    true,
		AttachStdin:  true,
		AttachStdout: true,
		AttachStderr: true,
		Healthcheck:  &container.HealthConfig{Test: []string{"NONE"}},
	}, host
}
