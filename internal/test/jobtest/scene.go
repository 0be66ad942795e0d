package jobtest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/run/trial"
)

// Scene is a job of two agents, five tasks and two attempts, with the directories of its runs.
type Scene struct {
	*testing.T
	Dir    string // the parent of the directories
	Config config.Job
	Specs  []trial.Spec
	Began  time.Time
	// PathsFrom is the PathsFrom of the plans.
	PathsFrom string
}

// New returns a scene with an empty directory.
func New(t *testing.T) *Scene {
	s := &Scene{T: t, Dir: t.TempDir(), Began: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	s.Config = config.Job{Name: "nightly", JobsDir: "jobs", NAttempts: 2, Metrics: []config.Metric{{Type: "sum"}}}
	for a := range 2 {
		for n := range 5 {
			made := &task.Task{Name: fmt.Sprint("task-", n), FS: fstest.MapFS{"instruction.md": {Data: []byte(fmt.Sprint("do ", n))}}}
			for attempt := 1; attempt <= 2; attempt++ {
				key := result.Key{Agent: fmt.Sprint("agent ", a), Dataset: "my/set", Task: made.Name, Attempt: attempt}
				s.Specs = append(s.Specs, trial.Spec{Key: key, Task: made})
			}
		}
	}
	return s
}

// Check ends the test if err is not nil.
func (s *Scene) Check(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// In returns a path in the scene's directory.
func (s *Scene) In(elements ...string) string {
	return filepath.Join(append([]string{s.Dir}, elements...)...)
}

// Outcome returns the outcome of a trial, the same in every run.
func (s *Scene) Outcome(i int) trial.Outcome {
	t := result.Trial{Key: s.Specs[i].Key, TaskDigest: s.Specs[i].Task.Digest()}
	t.Timestamps.StartedAt = s.Began.Add(time.Duration(i) * time.Second)
	t.Timestamps.EndedAt = t.Timestamps.StartedAt.Add(800 * time.Millisecond)
	t.Durations.TotalSec = 0.8
	t.Costs.Model, t.Cost = result.Dollars(0.1*float64(i)), result.Dollars(0.1*float64(i))
	if i%7 == 3 {
		t.Error = &result.Error{Type: result.AgentExecutionFailed, Message: "it fell over"}
	} else {
		t.Reward = new(float64(i%3) / 2)
	}
	return trial.Outcome{Trial: t}
}

// RunShard writes the directory dir as a run of a shard does; total 0 is the whole job. Trials for
// which skip is true have no result.
func (s *Scene) RunShard(dir string, index, total int, skip func(result.Key) bool) {
	s.Helper()
	opts := job.RecordOptions{StartedAt: s.Began, Dir: s.Dir, PathsFrom: s.PathsFrom}
	if total > 0 {
		opts.Shard, opts.ShardOf = &result.Shard{Index: index, Total: total}, job.Shards(s.Specs, total, nil)
	}
	plan, err := job.Record(s.Config, s.Specs, opts)
	s.Check(err)
	tree, err := job.Create(dir, s.Config, plan)
	s.Check(err)
	tree.UsePrompts(job.Instructions(s.Specs, nil))
	var trials []result.Trial
	own := plan.Own().Slice()
	for i, spec := range s.Specs {
		o := s.Outcome(i)
		if !slices.Contains(own, spec.Key) || skip != nil && skip(spec.Key) {
			continue
		}
		tree.Sink(event.Event{Time: o.Trial.Timestamps.StartedAt, Kind: event.TrialStarted, Key: &spec.Key})
		tree.Sink(event.Event{Time: o.Trial.Timestamps.EndedAt, Kind: event.TrialEnded, Key: &spec.Key})
		s.Check(tree.WriteTrial(o))
		s.Write(filepath.Join(tree.TrialDir(spec.Key), "logs", "agent", "notes.txt"), spec.Key.String())
		trials = append(trials, o.Trial)
	}
	s.Check(tree.WriteJob(result.Summarize(plan, trials)))
	s.Check(tree.Close())
}

// Shards writes the directories shards/i for all of total shards except without.
func (s *Scene) Shards(total int, without ...int) {
	s.Helper()
	for i := 1; i <= total; i++ {
		if !slices.Contains(without, i) {
			s.RunShard(s.In("shards", fmt.Sprint(i)), i, total, nil)
		}
	}
}

// Write writes a file and creates its parent directories.
func (s *Scene) Write(path, text string) {
	s.Helper()
	s.Check(os.MkdirAll(filepath.Dir(path), 0o755))
	s.Check(os.WriteFile(path, []byte(text), 0o644))
}

// Read returns the content of a file.
func (s *Scene) Read(path string) string {
	s.Helper()
	text, err := os.ReadFile(path)
	s.Check(err)
	return string(text)
}

// Content returns the contents of the files below a directory, by path.
func (s *Scene) Content(dir string) map[string]string {
	s.Helper()
	files := map[string]string{}
	s.Check(filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		below, err := filepath.Rel(dir, path)
		if e.Type().IsRegular() {
			files[below] = s.Read(path)
		} else {
			files[below] = e.Type().String()
		}
		return err
	}))
	return files
}
