package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/job/merge"
	"github.com/org/rollout-action/internal/test/jobtest"
)

// merge measures merging the shards of a large job: 100,000 trials, with as many tasks as large
// datasets have.
func (b *bench) merge(ctx context.Context) error {
	if _, err := jobtest.WriteShards(filepath.Join(b.dir, "merge", "shards"), mergeTasks, mergeShards); err != nil {
		return fmt.Errorf("write the shards: %w", err)
	}
	err := b.measure(ctx, measuring{"merge.time", b.inChild("merge", "link"), b.inChild("merge", "floor")})
	if err != nil {
		return err
	}
	b.add("merge.memory", b.peaks["link"])
	// Last and once, because it consumes the shards.
	return b.measure(ctx, measuring{"merge.move", b.inChild("merge", "move"), nil})
}

// mergeInto returns the work of a child: to merge the shards next to its directory into it, by
// linking or moving their trials.
func mergeInto(move bool) func(context.Context, *bench) ([]float64, error) {
	return once(func(ctx context.Context, b *bench) error {
		merged, err := merge.Run(ctx, merge.Options{Paths: []string{filepath.Join(filepath.Dir(b.dir), "shards")}, Output: b.dir, Move: move})
		if err == nil && (merged.Job.CompletedTrials != mergeTasks*10 || len(merged.Incomplete) > 0) {
			err = fmt.Errorf("the merge is not whole: %+v %v", merged.Job.Summary, merged.Incomplete)
		}
		return err
	})
}

// linkShards only reads and links the same files as a merge.
func linkShards(ctx context.Context, b *bench) error {
	shards, err := filepath.Glob(filepath.Join(filepath.Dir(b.dir), "shards", "*"))
	if err != nil {
		return err
	}
	return each(ctx, 2*runtime.GOMAXPROCS(0), len(shards), func(ctx context.Context, i int) error { return linkShard(ctx, shards[i], b.dir) })
}

// once returns the work of a child that is measured once.
func once(work func(context.Context, *bench) error) func(context.Context, *bench) ([]float64, error) {
	return func(ctx context.Context, b *bench) ([]float64, error) {
		took, err := timed(func(ctx context.Context) error { return work(ctx, b) })(ctx)
		return []float64{took}, err
	}
}

// linkShard links a shard's trials and reads their results.
func linkShard(ctx context.Context, shard, dir string) error {
	return filepath.WalkDir(shard, func(path string, entry fs.DirEntry, err error) error {
		below, _ := filepath.Rel(shard, path) // path is below shard
		switch {
		case err != nil || ctx.Err() != nil:
			return errors.Join(err, ctx.Err())
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(dir, below), 0o755)
		case !strings.ContainsRune(below, filepath.Separator):
			return nil // of the job
		}
		if entry.Name() == result.ResultFile {
			_, err = os.ReadFile(path) //nolint:gosec // no other process uses these files
		}
		return errors.Join(err, os.Link(path, filepath.Join(dir, below))) //nolint:gosec // the same
	})
}
