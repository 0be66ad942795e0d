package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/org/rollout-action/providers/docker"
)

const (
	dockerWorkers = 8
	// blockTrials is how many trials run before the other side has its turn.
	blockTrials = 24
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
	if err := b.sequential(ctx, ours, floor); err != nil {
		return err
	}
	return b.parallel(ctx, ours, floor)
}

func (b *bench) sequential(ctx context.Context, ours *stage, floor *bare) error {
	b.logf("docker: %d single trials, bare trials and docker runs in turn", b.rounds)
	things := []measured{
		func(ctx context.Context) (float64, error) {
			took, err := ours.once(ctx, 1, 1)
			return milliseconds(took), err
		},
		timed(floor.trial),
	}
	_, noCommand := exec.LookPath("docker")
	if noCommand == nil {
		things = append(things, timed(b.dockerRun))
	} else {
		b.report.Missing = append(b.report.Missing, fmt.Sprintf("docker.run: %v", noCommand))
	}
	values, err := turns(ctx, 2, b.rounds, things...)
	if err != nil {
		return err
	}
	trials := series{"a job of one hello trial, everything written", values[0]}
	b.add(newResult("docker.sequential", "ms", trials,
		series{"the same engine calls made bare", values[1]}, atMost("ratio", 1.15)))
	if noCommand == nil {
		b.add(newResult("docker.run", "ms", trials,
			series{"docker run --rm " + b.image + " true", values[2]}, atMost("ratio", 2.2)))
	}
	return nil
}

func (b *bench) dockerRun(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, "docker", "run", "--rm", b.image, "true").CombinedOutput()
	if err != nil {
		return fmt.Errorf("docker run --rm %s true: %w\n%s", b.image, err, out)
	}
	return nil
}

func (b *bench) parallel(ctx context.Context, ours *stage, floor *bare) error {
	blocks := b.fewer(5, 2)
	b.logf("docker: %d blocks of %d trials by %d workers, and as many bare ones, in turn", blocks, blockTrials, dockerWorkers)
	values, err := turns(ctx, 0, blocks,
		func(ctx context.Context) (float64, error) {
			took, err := ours.once(ctx, blockTrials, dockerWorkers)
			return blockTrials / took.Seconds(), err
		},
		func(ctx context.Context) (float64, error) {
			ms, err := timed(floor.block)(ctx)
			return blockTrials / (ms / 1000), err
		})
	if err != nil {
		return err
	}
	b.add(newResult("docker.parallel", "trials/s",
		series{fmt.Sprintf("a job of %d hello trials by %d workers", blockTrials, dockerWorkers), values[0]},
		series{fmt.Sprintf("as many bare trials by %d goroutines", dockerWorkers), values[1]},
		atLeast("ratio", 0.9)))
	return nil
}

// block runs blockTrials bare trials, dockerWorkers at a time.
func (b *bare) block(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(dockerWorkers)
	for range blockTrials {
		group.Go(func() error { return b.trial(ctx) })
	}
	return group.Wait()
}
