package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing/fstest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/org/rollout-action/internal/config"
	"github.com/org/rollout-action/internal/dataset"
	"github.com/org/rollout-action/internal/event"
	"github.com/org/rollout-action/internal/job"
	"github.com/org/rollout-action/internal/job/merge"
	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/internal/task"
)

// A job of 100,000 trials with as many tasks as large datasets have. Each trial has a result.json and an empty log.
const (
	mergeAgents   = 2
	mergeTasks    = 10_000
	mergeAttempts = 5
	mergeShards   = 64
)

// A child merges the shards below a directory, or does the least that a merge requires.
const (
	childMerge      = "merge"
	childMergeFloor = "merge-floor"
	childMove       = "merge-move"
	childMoveFloor  = "merge-move-floor"
)

// merge measures merging the shards of a large job.
func (b *bench) merge(ctx context.Context) error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("merge: %w: a process's largest size is read from /proc", errUnmeasurable)
	}
	trials := mergeAgents * mergeTasks * mergeAttempts
	pairs := b.fewer(10, 1)
	b.logf("merge: %d times %d trials from %d shards, and the same files read and linked bare, in turn", pairs, trials, mergeShards)
	shards := filepath.Join(b.dir, "merge", "shards")
	if err := writeShards(ctx, shards); err != nil {
		return fmt.Errorf("write the shards: %w", err)
	}
	var memory, floorMemory []float64
	// Remove nothing before the end; see trials.
	values, err := turns(ctx, 0, pairs,
		func(ctx context.Context) (float64, error) {
			used, err := inChild(ctx, childMerge, filepath.Join(b.dir, "merge", "ours-"+strconv.Itoa(len(memory))))
			memory = append(memory, used.PeakMB)
			return used.WallMS, err
		},
		func(ctx context.Context) (float64, error) {
			used, err := inChild(ctx, childMergeFloor, filepath.Join(b.dir, "merge", "floor-"+strconv.Itoa(len(floorMemory))))
			floorMemory = append(floorMemory, used.PeakMB)
			return used.WallMS, err
		})
	if err != nil {
		return err
	}
	// Last, because it consumes the shards.
	moved, err := turns(ctx, 0, 1,
		func(ctx context.Context) (float64, error) {
			used, err := inChild(ctx, childMove, filepath.Join(b.dir, "merge", "moved"))
			return used.WallMS, err
		},
		func(ctx context.Context) (float64, error) {
			used, err := inChild(ctx, childMoveFloor, filepath.Join(b.dir, "merge", "moved"))
			return used.WallMS, err
		})
	if err != nil {
		return err
	}
	ours := fmt.Sprintf("%d trials from %d shards merged, with plan, result and events", trials, mergeShards)
	const floor = "the results read, directories made and files linked"
	b.add(
		// The time to create a directory depends on the file system: on ext4 the floor alone may take four seconds.
		newResult("merge.time", "ms", series{ours, values[0]}, series{floor, values[1]}, atMost("ratio", 1.6)),
		newResult("merge.move", "ms", series{ours + ", directories moved", moved[0]},
			series{"the results read, directories moved", moved[1]}, atMost("ours", 4000)),
		newResult("merge.memory", "MB", series{ours, memory}, series{floor, floorMemory}, atMost("ours", 500)),
	)
	return nil
}

// mergeOurs merges the shards beside dir into it, by linking.
func mergeOurs(ctx context.Context, dir string) (time.Duration, error) {
	return mergeShardsInto(ctx, dir, false)
}

// moveOurs merges the shards beside dir into it, by moving.
func moveOurs(ctx context.Context, dir string) (time.Duration, error) {
	return mergeShardsInto(ctx, dir, true)
}

func mergeShardsInto(ctx context.Context, dir string, move bool) (time.Duration, error) {
	began := time.Now()
	merged, err := merge.Run(ctx, merge.Options{
		Paths: []string{filepath.Join(filepath.Dir(dir), "shards")}, Output: dir, Move: move,
	})
	took := time.Since(began)
	if err == nil && (merged.Job.CompletedTrials != mergeAgents*mergeTasks*mergeAttempts || len(merged.Incomplete) > 0) {
		err = fmt.Errorf("the merge is not whole: %+v %v", merged.Job.Summary, merged.Incomplete)
	}
	return took, err
}

// mergeFloor reads and links the same files as mergeOurs, and nothing more.
func mergeFloor(ctx context.Context, dir string) (time.Duration, error) {
	began := time.Now()
	shards := filepath.Join(filepath.Dir(dir), "shards")
	entries, err := os.ReadDir(shards)
	if err != nil {
		return 0, err
	}
	for n := range mergeAgents {
		if err := os.MkdirAll(filepath.Join(dir, agentName(n), "large"), 0o755); err != nil {
			return 0, err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2 * runtime.GOMAXPROCS(0))
	for _, shard := range entries {
		group.Go(func() error { return linkShard(ctx, filepath.Join(shards, shard.Name()), dir) })
	}
	err = group.Wait()
	return time.Since(began), err
}

// moveFloor reads the results of the job in dir, and moves its trials away.
func moveFloor(ctx context.Context, dir string) (time.Duration, error) {
	began := time.Now()
	trials, err := filepath.Glob(filepath.Join(dir, "*", "*", "*__*"))
	if err != nil || len(trials) == 0 {
		return 0, errors.Join(err, fmt.Errorf("no trials in %s", dir))
	}
	for n := range mergeAgents {
		if err := os.MkdirAll(filepath.Join(dir+"-floor", agentName(n), "large"), 0o755); err != nil {
			return 0, err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2 * runtime.GOMAXPROCS(0))
	for _, trial := range trials {
		group.Go(func() error {
			if _, err := os.ReadFile(filepath.Join(trial, result.ResultFile)); err != nil || ctx.Err() != nil {
				return errors.Join(err, ctx.Err())
			}
			return os.Rename(trial, dir+"-floor"+trial[len(dir):])
		})
	}
	err = group.Wait()
	return time.Since(began), err
}

// linkShard links a shard's trials and reads their results.
func linkShard(ctx context.Context, shard, dir string) error {
	return filepath.WalkDir(shard, func(path string, entry fs.DirEntry, err error) error {
		below, _ := filepath.Rel(shard, path) // path is below shard
		depth := bytes.Count([]byte(below), []byte{filepath.Separator})
		switch {
		case err != nil || ctx.Err() != nil:
			return errors.Join(err, ctx.Err())
		case depth < 2:
			return nil
		case entry.IsDir():
			return os.Mkdir(filepath.Join(dir, below), 0o755)
		}
		if entry.Name() == result.ResultFile {
			if _, err := os.ReadFile(path); err != nil { //nolint:gosec // no other process uses these files
				return err
			}
		}
		return os.Link(path, filepath.Join(dir, below)) //nolint:gosec // the same
	})
}

// writeShards writes the shards of a large job.
func writeShards(ctx context.Context, dir string) error {
	path, err := writeLarge(dir+".job", mergeAgents, mergeAttempts)
	if err != nil {
		return err
	}
	loaded, err := config.Load(path, config.Options{})
	if err != nil {
		return err
	}
	set := &dataset.Set{Name: "large"}
	for n := range mergeTasks {
		set.Tasks = append(set.Tasks, &task.Task{
			Name: fmt.Sprintf("a-task-with-a-name-%05d", n), FS: fstest.MapFS{"instruction.md": {Data: []byte(fmt.Sprint("Do number ", n))}},
		})
	}
	specs := job.Plan(loaded.Job, []*dataset.Set{set}, loaded.Env)
	of := job.Shards(specs, mergeShards, nil)
	plan, err := job.Record(loaded.Job, specs, job.RecordOptions{
		StartedAt: time.Now(), Dir: dir, Shard: &result.Shard{Index: 1, Total: mergeShards}, ShardOf: of,
	})
	if err != nil {
		return err
	}
	text, err := result.Marshal(plan)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2 * runtime.GOMAXPROCS(0))
	for index := 1; index <= mergeShards; index++ {
		group.Go(func() error {
			own := plan
			own.Shard = &result.Shard{Index: index, Total: mergeShards}
			// Encoding a large plan is slow; the plans of shards differ in one number.
			text := bytes.Replace(text, []byte(`"index": 1,`), fmt.Appendf(nil, `"index": %d,`, index), 1)
			return writeShard(ctx, filepath.Join(dir, fmt.Sprintf("rollout-shard-%d-of-%d", index, mergeShards)), loaded.Job, own, text)
		})
	}
	return group.Wait()
}

func writeShard(ctx context.Context, dir string, cfg config.Job, plan result.Plan, planText []byte) (err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, result.PlanFile), planText, 0o644); err != nil {
		return err
	}
	tree := &job.Tree{Dir: dir, Plan: plan}
	var trials []result.Trial
	var events, outputs bytes.Buffer
	digests := map[string]string{}
	for _, t := range plan.Tasks {
		digests[t.Task] = t.Digest
	}
	for n, key := range plan.Own() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		t := sampleTrial(key, digests[key.Task], plan.StartedAt.Add(time.Duration(n)*time.Millisecond))
		trials = append(trials, t)
		if err := writeTrialFiles(tree.TrialDir(key), t); err != nil {
			return err
		}
		output, err := job.OutputLine(result.OutputOf(plan, t, result.PromptOf("Write \"Hello, world!\" into /app/hello.txt.\n")))
		if err != nil {
			return err
		}
		outputs.Write(output)
		for _, e := range []event.Event{
			{Kind: event.TrialStarted, Time: t.Timestamps.StartedAt, Key: &key},
			{Kind: event.TrialEnded, Time: t.Timestamps.EndedAt, Key: &key, Trial: &t},
		} {
			line, err := result.Marshal(e)
			if err != nil {
				return err
			}
			events.Write(append(bytes.ReplaceAll(bytes.TrimSpace(line), []byte("\n"), nil), '\n'))
		}
	}
	if err := os.WriteFile(filepath.Join(dir, result.EventsFile), events.Bytes(), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, result.OutputsFile), outputs.Bytes(), 0o644); err != nil {
		return err
	}
	return errors.Join(result.WriteJSON(filepath.Join(dir, result.ConfigFile), cfg), tree.WriteJob(result.Summarize(plan, trials)))
}

// writeTrialFiles writes a trial's directory, without syncing it to disk.
func writeTrialFiles(dir string, t result.Trial) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	text, err := result.Marshal(t)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(dir, result.ResultFile), text, 0o644), os.WriteFile(filepath.Join(dir, "stdout.txt"), nil, 0o644))
}

// sampleTrial returns a passed trial with all fields set.
func sampleTrial(key result.Key, digest string, began time.Time) result.Trial {
	at := func(ms int) *time.Time { return new(result.Stamp(began.Add(time.Duration(ms) * time.Millisecond))) }
	return result.Trial{
		Key: key, Reward: new(1.0), TaskDigest: digest,
		Durations: result.Durations{TotalSec: 0.8, EnvironmentSetupSec: new(0.3), AgentSetupSec: new(0.1), AgentExecutionSec: new(0.2), VerifierSec: new(0.1)},
		Timestamps: result.Timestamps{
			StartedAt: *at(0), EnvironmentSetupStartedAt: at(0), EnvironmentSetupEndedAt: at(300),
			AgentSetupStartedAt: at(300), AgentSetupEndedAt: at(400), AgentExecutionStartedAt: at(400), AgentExecutionEndedAt: at(600),
			VerifierStartedAt: at(600), VerifierEndedAt: at(700), EndedAt: *at(800),
		},
		Environment: &result.Environment{Provider: "docker", ID: fmt.Sprintf("%064x", key.Attempt), Image: "debian:bookworm"},
	}
}
