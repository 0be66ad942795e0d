package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/org/rollout-action/providers/docker"
)

// docker measures hello trials on a Docker engine.
func (b *bench) docker(ctx context.Context) error {
	provider, err := docker.New(ctx, nil)
	if err != nil {
		return fmt.Errorf("%w: %w", errUnmeasurable, err)
	}
	defer provider.Close()
	ours, err := newStage(ctx, filepath.Join(b.dir, "docker"), b.image, 1, provider)
	if err != nil {
		return err
	}
	floor, err := newBare(b.image)
	if err != nil {
		return err
	}
	defer floor.api.Close()
	if _, err := floor.api.ImageInspect(ctx, b.image); err != nil {
		return fmt.Errorf("%w: %w: pull it first, or choose another --image", errUnmeasurable, err)
	}
	if err := b.measure(ctx, "docker.sequential", ours.trials(1, 1), timed(floor.trial)); err != nil {
		return err
	}
	if _, err := exec.LookPath("docker"); err != nil {
		b.missing("docker.run", err)
	} else if err := b.measure(ctx, "docker.run", ours.trials(1, 1), process("docker", "run", "--rm", b.image, "true")); err != nil {
		return err
	}
	return b.measure(ctx, "docker.parallel", perSecond(dockerTrials, ours.trials(dockerTrials, workers)),
		perSecond(dockerTrials, timed(func(ctx context.Context) error {
			return each(ctx, dockerTrials, func(ctx context.Context, _ int) error { return floor.trial(ctx) })
		})))
}

// each calls do with 0 to n-1, as many at a time as there are workers.
func each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}
