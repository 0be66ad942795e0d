package fly

import (
	"context"
	"errors"
	"fmt"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/hosted"
)

// machineEnv is a machine as an environment. The guest in it serves commands, copies and
// connections.
type machineEnv struct {
	*hosted.Environment
	p            *Provider
	app, machine string
	pace         *pace
}

var _ environment.Environment = (*machineEnv)(nil)

// ID implements environment.Environment.
func (e *machineEnv) ID() string { return e.app + "/" + e.machine }

// explain returns why the machine does not answer, or nil if it runs as far as is known. It
// implements podinit.Options.Explain.
func (e *machineEnv) explain(ctx context.Context) error {
	if err := e.CheckEnded(); err != nil {
		return err
	}
	m, err := e.p.client.machine(ctx, e.app, e.machine)
	switch {
	case isGone(err) || err == nil && !present(m):
		return hosted.Lost("%s is gone", e.Name)
	case err != nil || m.State == stateStarted:
		return nil //nolint:nilerr // it is not known
	}
	return &environment.Error{Kind: environment.KindLost, Err: fmt.Errorf("%s is %s: %w", e.Name, hosted.OneLine(m.State), ending(m))}
}

// ending returns how a machine ended. Its newest event comes first.
func ending(m machine) error {
	for _, event := range m.Events {
		if event.Request == nil || event.Request.ExitEvent == nil {
			continue
		}
		if event.Request.ExitEvent.OOMKilled {
			return environment.ErrOutOfMemory
		}
		return fmt.Errorf("it has ended with code %d", event.Request.ExitEvent.ExitCode)
	}
	return errors.New("Fly does not say why")
}

// Stop implements environment.Environment: the machine is marked as kept, and all processes but the
// guest end. It stays, and costs: a machine that is stopped loses its files. One that is not marked
// ends by itself.
func (e *machineEnv) Stop(ctx context.Context) error {
	doing := "stop " + e.Name
	if err := e.p.client.setMetadata(ctx, e.app, e.machine, hosted.TagKept, "1"); err != nil && !isGone(err) {
		return failed(ctx, environment.KindTeardown, doing, err)
	}
	return failed(ctx, environment.KindTeardown, doing, e.Halt(ctx, e.explain))
}

// Destroy implements environment.Environment.
func (e *machineEnv) Destroy(ctx context.Context) error {
	e.End()
	err := e.p.destroy(ctx, e.app, e.machine)
	if err == nil {
		err = e.p.awaitEnd(ctx, e.app, e.machine)
	}
	if err == nil {
		e.Gone()
	}
	e.Close()
	return failed(ctx, environment.KindTeardown, "destroy "+e.Name, err)
}
