package apple

import (
	"context"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/hosted"
)

// containerEnv is a container as an environment. The guest in it serves commands, copies and
// connections.
type containerEnv struct {
	*hosted.Environment
	p         *Provider
	id        string
	installer hosted.Installer
}

var _ environment.Environment = (*containerEnv)(nil)

// ID implements environment.Environment.
func (e *containerEnv) ID() string { return e.id }

// explain returns why the container does not answer, or nil if it runs as far as is known. It
// implements podinit.Options.Explain.
func (e *containerEnv) explain(ctx context.Context) error {
	if err := e.CheckEnded(); err != nil {
		return err
	}
	c, found, err := e.p.command.find(ctx, e.id)
	switch {
	case err != nil && ctx.Err() == nil && !e.p.command.serving(ctx):
		return hosted.Lost("%s does not answer: the system service of container does not run any more", e.Name)
	case err != nil:
		return nil //nolint:nilerr // it is not known
	case !found:
		return hosted.Lost("%s is gone", e.Name)
	case c.Status.State != stateRunning:
		return hosted.Lost("%s is %s", e.Name, hosted.OneLine(c.Status.State))
	}
	return nil
}

// Stop implements environment.Environment: the container is noted as kept, and stopped. Its files
// stay.
func (e *containerEnv) Stop(ctx context.Context) error {
	doing := "stop " + e.Name
	if err := e.Halt(ctx, e.explain); err != nil {
		return e.p.failed(ctx, environment.KindTeardown, doing, err)
	}
	if err := e.p.kept.note(e.id); err != nil {
		return e.p.failed(ctx, environment.KindTeardown, doing, err)
	}
	_, err := e.p.command.run(ctx, 1, nil, "stop", "--time", "1", e.id)
	if err == nil {
		return nil
	}
	if c, found, unknown := e.p.command.find(ctx, e.id); unknown == nil && (!found || c.Status.State != stateRunning) {
		return nil
	}
	e.p.kept.forget(e.id) // rollout clean removes it as it removes what a killed run has left
	return e.p.failed(ctx, environment.KindTeardown, doing, err)
}

// Destroy implements environment.Environment.
func (e *containerEnv) Destroy(ctx context.Context) error {
	e.End()
	err := e.p.delete(ctx, e.id)
	e.Close()
	return e.p.failed(ctx, environment.KindTeardown, "destroy "+e.Name, err)
}
