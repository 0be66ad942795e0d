package main

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
)

const (
	engineTrials  = 10_000
	engineTasks   = 100
	engineWorkers = 8
)

// engine measures the cost of everything except a provider.
func (b *bench) engine(ctx context.Context) error {
	if err := b.plan(ctx); err != nil {
		return err
	}
	if runtime.GOOS != "linux" {
		return fmt.Errorf("trials and memory: %w: a process's largest size is read from /proc", errUnmeasurable)
	}
	return b.trials(ctx)
}

func (b *bench) trials(ctx context.Context) error {
	pairs := b.fewer(10, 1)
	b.logf("engine: %d times %d trials, and the same files written bare, in turn", pairs, engineTrials)
	var memory, floorMemory []float64
	// Remove nothing before the end: for minutes after a removal, some file systems (ext4) are slow to create files, because they
	// do not reuse the numbers of the removed ones.
	dir := func(turn int) string { return filepath.Join(b.dir, "engine", strconv.Itoa(turn)) }
	values, err := turns(ctx, 0, pairs,
		func(ctx context.Context) (float64, error) {
			used, err := inChild(ctx, childTrials, dir(len(memory)))
			memory = append(memory, used.PeakMB)
			return used.WallMS / engineTrials, err
		},
		func(ctx context.Context) (float64, error) {
			used, err := inChild(ctx, childFiles, dir(len(floorMemory)))
			floorMemory = append(floorMemory, used.PeakMB)
			return used.WallMS / engineTrials, err
		})
	if err != nil {
		return err
	}
	const files = "the same files written the same way"
	ours := fmt.Sprintf("a job of %d trials on the fake provider by %d workers", engineTrials, engineWorkers)
	b.add(
		newResult("engine.trial", "ms", series{ours, values[0]}, series{files, values[1]}, atMost("ours", 2)),
		newResult("engine.memory", "MB", series{ours, memory}, series{files, floorMemory}, atMost("ours", 150)),
	)
	return nil
}
