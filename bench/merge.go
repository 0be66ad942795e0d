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
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/org/rollout-action/internal/job/jobtest"
	"github.com/org/rollout-action/internal/job/merge"
	"github.com/org/rollout-action/internal/result"
)

// merge measures merging the shards of a large job: 100,000 trials, with as many tasks as large datasets have.
func (b *bench) merge(ctx context.Context) error {
	if _, err := jobtest.WriteShards(filepath.Join(b.dir, "merge", "shards"), mergeTasks, mergeShards); err != nil {
		return fmt.Errorf("write the shards: %w", err)
	}
	n := 0
	dir := func() string { // remove nothing before the end; see engine
		n++
		return filepath.Join("merge", fmt.Sprint(n))
	}
	var memory []float64
	if err := b.measure(ctx, "merge.time", b.inChild("merge", dir, &memory), b.inChild("merge-floor", dir, nil)); err != nil {
		return err
	}
	b.add("merge.memory", memory)
	// Last and once, because it consumes the shards.
	return b.measure(ctx, "merge.move", b.inChild("merge-move", dir, nil), nil)
}

// mergeByLinking merges the shards beside the directory into it, by linking. It runs in a child.
func mergeByLinking(ctx context.Context, b *bench) ([]float64, error) {
	return mergeInto(ctx, b.dir, false)
}

// mergeByMoving merges the shards beside the directory into it, by moving their trials. It runs in a child.
func mergeByMoving(ctx context.Context, b *bench) ([]float64, error) {
	return mergeInto(ctx, b.dir, true)
}

func mergeInto(ctx context.Context, dir string, move bool) ([]float64, error) {
	began := time.Now()
	merged, err := merge.Run(ctx, merge.Options{Paths: []string{filepath.Join(filepath.Dir(dir), "shards")}, Output: dir, Move: move})
	took := time.Since(began)
	if err == nil && (merged.Job.CompletedTrials != mergeTasks*10 || len(merged.Incomplete) > 0) {
		err = fmt.Errorf("the merge is not whole: %+v %v", merged.Job.Summary, merged.Incomplete)
	}
	return []float64{milliseconds(took)}, err
}

// mergeBare reads and links the same files as mergeByLinking, and does nothing more. It runs in a child.
func mergeBare(ctx context.Context, b *bench) ([]float64, error) {
	began := time.Now()
	shards, err := filepath.Glob(filepath.Join(filepath.Dir(b.dir), "shards", "*"))
	if err != nil {
		return nil, err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2 * runtime.GOMAXPROCS(0))
	for _, shard := range shards {
		group.Go(func() error { return linkShard(ctx, shard, b.dir) })
	}
	err = group.Wait()
	return []float64{milliseconds(time.Since(began))}, err
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
			if _, err := os.ReadFile(path); err != nil { //nolint:gosec // no other process uses these files
				return err
			}
		}
		return os.Link(path, filepath.Join(dir, below)) //nolint:gosec // the same
	})
}
