package docker

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"github.com/org/rollout-action/internal/core/environment"
)

// containerEnv is a container. It holds no connection between calls.
type containerEnv struct {
	p          *Provider
	id         string
	image      string // the reference that it was made from
	settings   settings
	variables  bool // it has some that its image has not
	busy       bool // see environment.Readiness
	unenforced []string
	connected  bool // to a network other than "none"
	tunnel     tunnel
	ran        atomic.Bool // a command did run
	ended      atomic.Bool // Stop or Destroy was called
	group      *group      // its services; nil: it has none
}

var _ environment.Environment = (*containerEnv)(nil)

// ID returns the container's id.
func (e *containerEnv) ID() string { return e.id }

// Cost returns 0: the price of the machine is unknown here.
func (e *containerEnv) Cost() float64 { return 0 }

// Unenforced implements environment.LimitReporter.
func (e *containerEnv) Unenforced() []string { return e.unenforced }

// Base returns nil: a container runs on its image.
func (e *containerEnv) Base() *environment.Base { return nil }

// Stop implements environment.Environment: the container is killed, and renamed to mark it as kept.
func (e *containerEnv) Stop(ctx context.Context) error {
	e.ended.Store(true)
	e.tunnel.close()
	if e.group != nil {
		if err := e.group.kill(ctx); err != nil {
			return err
		}
	}
	err := persistWhile(ctx, isTransient, func() error { return e.p.api.ContainerKill(ctx, e.id, "KILL") })
	if err != nil && !cerrdefs.IsConflict(err) { // conflict: not running
		return failed(environment.KindTeardown, "kill container", err)
	}
	err = e.p.api.ContainerRename(ctx, e.id, keptPrefix+e.id[:12])
	if err == nil || isKept(ctx, e) { // it may have been stopped before
		return nil
	}
	return failed(environment.KindTeardown, "rename container", err)
}

func isKept(ctx context.Context, e *containerEnv) bool {
	state, err := e.p.api.ContainerInspect(ctx, e.id)
	return err == nil && hasKeptName(state.Name)
}

// hasKeptName reports whether a container's name says that it was stopped to be kept.
func hasKeptName(name string) bool {
	return strings.HasPrefix(strings.TrimPrefix(name, "/"), keptPrefix)
}

// Destroy implements environment.Environment.
func (e *containerEnv) Destroy(ctx context.Context) error {
	e.ended.Store(true)
	e.tunnel.close()
	if e.group != nil {
		return removeGroup(ctx, e.p, e.group.id)
	}
	return e.p.remove(ctx, e.id)
}

// List implements environment.Provider.
func (p *Provider) List(ctx context.Context) ([]environment.Listed, error) {
	containers, err := listContainers(ctx, p.api, filters.Arg("label", environment.LabelJob))
	if err != nil {
		return nil, failed(environment.KindUnavailable, "list containers", err)
	}
	var listed []environment.Listed
	for _, c := range containers {
		if isMember(c.Labels) {
			continue
		}
		listed = append(listed, environment.Listed{
			ID:     c.ID,
			Labels: environment.ParseLabels(c.Labels),
			Kept:   slices.ContainsFunc(c.Names, hasKeptName),
		})
	}
	remains, err := listRemains(ctx, p, containers)
	if err != nil {
		return nil, failed(environment.KindUnavailable, "list networks and volumes", err)
	}
	listed = append(listed, remains...)
	kept, err := p.listOutcomes(ctx)
	if err != nil {
		return nil, failed(environment.KindUnavailable, "list images", err)
	}
	return append(listed, kept...), nil
}

// Remove implements environment.Provider. What Restore made goes with its image.
func (p *Provider) Remove(ctx context.Context, id string) error {
	if isOutcome(id) {
		return p.removeOutcome(ctx, id)
	}
	if group, ok := strings.CutPrefix(id, remainsPrefix); ok {
		return removeGroup(ctx, p, group)
	}
	state, err := p.api.ContainerInspect(ctx, id)
	if err == nil && state.Config != nil && state.Config.Labels[environment.LabelGroup] != "" {
		return removeGroup(ctx, p, state.Config.Labels[environment.LabelGroup])
	}
	if err := p.remove(ctx, id); err != nil {
		return err
	}
	if err == nil && state.Config != nil && strings.HasPrefix(state.Config.Image, restoredRepository+":") {
		return p.removeCommitted(ctx, state.Config.Image)
	}
	return nil
}

// remove kills and removes a container with its volumes, in one request. It returns when the
// container is gone, also if another process is removing it.
func (p *Provider) remove(ctx context.Context, id string) error {
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := persistWhile(ctx, isTransient, func() error {
			return p.api.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
		})
		switch {
		case err == nil, cerrdefs.IsNotFound(err):
			return nil
		case !cerrdefs.IsConflict(err): // conflict: a removal is in progress
			return failed(environment.KindTeardown, "remove container", err)
		}
		select {
		case <-ctx.Done():
			return failed(environment.KindTeardown, "remove container", ctx.Err())
		case <-time.After(wait):
		}
	}
}
