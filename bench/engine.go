package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing/fstest" // MapFS: the standard library's in-memory fs.FS
	"time"

	"github.com/org/rollout-action/internal/config"
	"github.com/org/rollout-action/internal/dataset"
	"github.com/org/rollout-action/internal/job"
	"github.com/org/rollout-action/internal/registry"
	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/internal/task"
	"github.com/org/rollout-action/providers/fake"
)

// engine measures the cost of everything except a provider.
func (b *bench) engine(ctx context.Context) error {
	path, err := writeLargeJob(filepath.Join(b.dir, "plan"))
	if err != nil {
		return err
	}
	set := &dataset.Set{Name: "large"}
	for n := range planTasks {
		set.Tasks = append(set.Tasks, &task.Task{Name: fmt.Sprintf("a-task-with-a-name-%04d", n), FS: fstest.MapFS{
			"instruction.md": {Data: fmt.Append(nil, "Do number ", n)}, "tests/test.sh": {Data: []byte("true")},
		}})
	}
	if err := b.measure(ctx, "engine.plan", timed(func(context.Context) error { return plan(path, set) }), nil); err != nil {
		return err
	}
	var memory []float64
	// Remove nothing before the end: for minutes after a removal, some file systems (ext4) are slow to create files, because they
	// do not reuse the numbers of the removed ones.
	err = b.measure(ctx, "engine.trial", b.inChild("trials", func() string { return filepath.Join("engine", fmt.Sprint(len(memory))) }, &memory), nil)
	if err == nil {
		b.add("engine.memory", memory)
	}
	return err
}

// runTrials runs a large job in a child, and returns the duration of a trial.
func runTrials(ctx context.Context, b *bench) (ms []float64, err error) {
	provider := fake.New(fake.Options{})
	defer func() { err = errors.Join(err, provider.Close()) }()
	ours, err := newStage(ctx, b.dir, "hello", engineTasks, provider)
	if err != nil {
		return nil, err
	}
	took, _, err := ours.run(ctx, engineTrials, workers)
	return []float64{milliseconds(took) / engineTrials}, err
}

// plan plans a large job, from its file to the text of plan.json.
func plan(path string, set *dataset.Set) error {
	loaded, err := config.Load(path, config.Options{})
	if err != nil {
		return err
	}
	specs := job.Plan(loaded.Job, []*dataset.Set{set}, loaded.Env)
	keys := job.Keys(specs)
	if err := job.CheckNames(keys); err != nil {
		return err
	}
	recorded, err := job.Record(loaded.Job, specs, job.RecordOptions{StartedAt: time.Now(), Dir: filepath.Dir(path)})
	if err != nil {
		return err
	}
	text, err := result.Marshal(recorded)
	if err == nil && (len(keys) != planAgents*planTasks*planAttempts || len(text) == 0) {
		err = fmt.Errorf("%d trials were planned", len(keys))
	}
	return err
}

// writeLargeJob writes a job file with many agents; its dataset is an empty directory.
func writeLargeJob(dir string) (string, error) {
	var agents []any
	for n := range planAgents {
		agents = append(agents, map[string]any{"name": fmt.Sprintf("an-agent-%d", n), "execute": helloExecute})
	}
	text, err := json.Marshal(map[string]any{"n_attempts": planAttempts, "agents": agents, "datasets": []any{map[string]any{"path": "large"}}})
	path := filepath.Join(dir, "job.json")
	return path, errors.Join(err, os.MkdirAll(filepath.Join(dir, "large"), 0o755), os.WriteFile(path, text, 0o644))
}

// registry measures reading a large registry and finding a dataset in it.
func (b *bench) registry(ctx context.Context) error {
	all := make([]registry.Dataset, registryDatasets)
	for n := range all {
		all[n] = registry.Dataset{Name: fmt.Sprint("dataset-", n), Version: "1.0", Description: "A dataset of many tasks, with a description of one sentence."}
		for m := range registryTasks {
			name := fmt.Sprintf("a-task-with-a-name-of-some-length-%04d", m)
			all[n].Tasks = append(all[n].Tasks, registry.Task{
				Name: name, GitURL: "https://git.example.org/datasets/datasets.git",
				GitCommitID: "69671fbaac6d67a7ef0dfec016cc38a64ef7a77c", Path: "datasets/dataset/" + name,
			})
		}
	}
	text, err := json.MarshalIndent(all, "", "  ")
	path := filepath.Join(b.dir, "registry.json")
	if err := errors.Join(err, os.WriteFile(path, text, 0o644)); err != nil {
		return err
	}
	return b.measure(ctx, "registry.load",
		timed(func(ctx context.Context) error {
			loaded, err := registry.Load(ctx, path, registry.Options{})
			if err != nil {
				return err
			}
			d, err := loaded.Find("dataset-7", "")
			if err == nil && len(d.Tasks) != registryTasks {
				err = fmt.Errorf("the dataset has %d tasks", len(d.Tasks))
			}
			return err
		}),
		timed(func(context.Context) error {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return json.Unmarshal(text, &[]registry.Dataset{})
		}))
}
