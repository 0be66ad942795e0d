package docker

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/org/rollout-action/internal/environment"
)

// killer ends all that a command started. See the file.
//
//go:embed kill.bash
var killer string

const (
	// beginGrace is how long a command that is to be killed may take to begin, so that it can be.
	beginGrace = 5 * time.Second
	// killGrace bounds one run of the killer, which gives up by itself before.
	killGrace = 30 * time.Second
)

var errUnknownStart = errors.New("it is not known when it began")

// killSince kills everything that the process p started, and p. If that cannot be done, it kills
// the container and returns KindLost.
func (e *containerEnv) killSince(ctx context.Context, p *process, out *output) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*killGrace)
	defer cancel()
	failure := e.tryKill(ctx, p, out)
	if failure == nil {
		return nil
	}
	lost := &environment.Error{
		Kind: environment.KindLost,
		Err:  fmt.Errorf("what the command started could not be ended, so the container was killed: %w", failure),
	}
	if err := e.p.api.ContainerKill(ctx, e.id, "KILL"); err != nil {
		lost.Err = fmt.Errorf("%w (killing it failed, too: %w)", lost.Err, err)
	}
	return lost
}

func (e *containerEnv) tryKill(ctx context.Context, p *process, out *output) error {
	var root processStart
	select {
	case root = <-out.began:
	case <-p.ended:
		select {
		case root = <-out.began:
		default:
			return e.neverBegan(ctx, p)
		}
	case <-time.After(beginGrace):
	}
	if root.pid == 0 {
		return errUnknownStart
	}
	err := e.runKiller(ctx, root)
	if err == nil {
		return nil
	}
	// Without a free process id there is no killer.
	restore, raised := e.raisePids(ctx)
	if !raised {
		return err
	}
	defer restore()
	return e.runKiller(ctx, root)
}

// neverBegan makes sure that a command without a sign of life has none.
func (e *containerEnv) neverBegan(ctx context.Context, p *process) error {
	state, err := e.p.api.ContainerExecInspect(ctx, p.id)
	if err != nil {
		return err
	}
	if state.Running || p.cut != nil {
		return errUnknownStart
	}
	return nil
}

func (e *containerEnv) runKiller(ctx context.Context, root processStart) error {
	ctx, cancel := context.WithTimeout(ctx, killGrace)
	defer cancel()
	var said bytes.Buffer
	input, hold := io.Pipe() // the killer naps by waiting for input
	defer hold.Close()
	p, err := e.start(ctx, ownCommand(killer, strconv.Itoa(root.pid), strconv.FormatInt(root.ticks, 10)), input, &said, &said)
	if err != nil {
		return err
	}
	code, err := p.wait(ctx)
	p.drain(0)
	if err != nil {
		return err
	}
	if code != 0 {
		return fmt.Errorf("killing ended with code %d: %s", code, bytes.TrimSpace(said.Bytes()))
	}
	return nil
}

// raisePids lets some more processes into the container. The function that it returns undoes it.
func (e *containerEnv) raisePids(ctx context.Context) (func(), bool) {
	state, err := e.p.api.ContainerInspect(ctx, e.id)
	if err != nil || state.HostConfig == nil || state.HostConfig.PidsLimit == nil || *state.HostConfig.PidsLimit <= 0 {
		return nil, false
	}
	set := func(limit int64) error {
		_, err := e.p.api.ContainerUpdate(ctx, e.id, container.UpdateConfig{Resources: container.Resources{PidsLimit: &limit}})
		return err
	}
	limit := *state.HostConfig.PidsLimit
	if set(limit+1024) != nil {
		return nil, false
	}
	return func() { _ = set(limit) }, true
}
