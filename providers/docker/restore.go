package docker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"

	"github.com/org/rollout-action/internal/core/environment"
)

// restoredRepository has the images of kept containers, which exist as long as the containers that
// continue with them.
const restoredRepository = "rollout/restored"

// restoredEnv is a container that continues with the files of another one.
type restoredEnv struct {
	*containerEnv
	ref string // of its image, which nothing else uses
}

// Restore implements environment.Restorer: the kept container is committed, which does not change
// it. An outcome is an image already.
func (p *Provider) Restore(ctx context.Context, id string, opts environment.CreateOptions) (environment.Environment, error) {
	if isOutcome(id) {
		return p.restoreOutcome(ctx, id, opts)
	}
	doing := "restore container " + id
	state, _, err := p.api.ContainerInspectWithRaw(ctx, id, true)
	if cerrdefs.IsNotFound(err) {
		return nil, &environment.Error{Kind: environment.KindStart, Err: fmt.Errorf("%s: %w", doing, fs.ErrNotExist)}
	}
	if err != nil {
		return nil, failed(environment.KindStart, doing, err)
	}
	if state.Config == nil || state.Config.Labels[environment.LabelJob] == "" || !hasKeptName(state.Name) {
		return nil, &environment.Error{Kind: environment.KindStart, Err: fmt.Errorf("%s: it was not kept by rollout", doing)}
	}
	if at := volumeOf(state); at != "" {
		return nil, &environment.Error{Kind: environment.KindStart, Err: fmt.Errorf("%s: its image has a VOLUME at %s, whose files are not a part of images", doing, at)}
	}
	if err := checkSize(state); err != nil {
		return nil, &environment.Error{Kind: environment.KindStart, Err: fmt.Errorf("%s: %w", doing, err)}
	}
	base, err := p.api.ImageInspect(ctx, state.Image)
	if err != nil {
		return nil, failed(environment.KindStart, doing, err)
	}
	labels := committedLabels("restored", state.Image, "the files of container "+id[:min(12, len(id))])
	committed := &container.Config{Labels: labels}
	if base.Config != nil {
		committed.Healthcheck = base.Config.Healthcheck // the container's own is none
	}
	ref := restoredRepository + ":" + strings.ToLower(rand.Text())
	longer, done := withGrace(ctx) // an engine cannot be told to stop it
	_, err = commit(longer, p, id, container.CommitOptions{Reference: ref, Comment: labels[labelDescription], Config: committed})
	done()
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, errors.Join(failed(environment.KindStart, doing, err), p.removeCommitted(ctx, ref))
	}
	opts.Image = ref
	env, err := p.CreateEnvironment(ctx, opts)
	if err != nil {
		if removing := p.removeCommitted(ctx, ref); removing != nil {
			err = fmt.Errorf("%w; and then: %w", err, removing)
		}
		return nil, err
	}
	return &restoredEnv{env.(*containerEnv), ref}, nil
}

// Destroy implements environment.Environment.
func (e *restoredEnv) Destroy(ctx context.Context) error {
	if err := e.containerEnv.Destroy(ctx); err != nil {
		return err
	}
	return e.p.removeCommitted(ctx, e.ref)
}

// removeCommitted removes an image of a container by its reference. One that is gone is no error.
func (p *Provider) removeCommitted(ctx context.Context, ref string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupGrace)
	defer cancel()
	p.forgetSettings(ref)
	err := persistWhile(ctx, isTransient, func() error {
		_, err := p.api.ImageRemove(ctx, ref, image.RemoveOptions{Force: true, PruneChildren: true})
		return err
	})
	if err == nil || cerrdefs.IsNotFound(err) {
		return nil
	}
	return failed(environment.KindTeardown, "remove image "+ref, err)
}
