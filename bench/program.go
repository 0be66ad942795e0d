package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing/fstest" // MapFS: the standard library's in-memory fs.FS
	"time"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/run/dataset"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/run/registry"
	"github.com/org/rollout-action/internal/test/fake"
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
	err = b.measure(ctx,
		measuring{"engine.plan", timed(func(context.Context) error { return plan(path, set) }), nil},
		measuring{"engine.trial", b.inChild("engine", "trials"), nil})
	if err == nil {
		b.add("engine.memory", b.peaks["trials"])
		err = b.models(ctx)
	}
	return err
}

// models compares trials of a job that has models with those of a job without. Their agent has
// none.
func (b *bench) models(ctx context.Context) error {
	provider := fake.New(fake.Options{})
	defer provider.Close()
	allocations := map[string][]float64{}
	measure := func(name string, prepare func(*stage) error) (measured, error) {
		s, err := newStage(ctx, filepath.Join(b.dir, name), "hello", 1, provider)
		if err == nil {
			err = prepare(s)
		}
		if err != nil {
			return nil, err
		}
		run := s.trials(modelTrials, 1)
		return func(ctx context.Context) (float64, error) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			took, err := run(ctx)
			runtime.ReadMemStats(&after)
			allocations[name] = append(allocations[name], float64(after.Mallocs-before.Mallocs)/modelTrials)
			return took / modelTrials, err
		}, nil
	}
	with, err := measure("with-models", (*stage).withModels)
	if err != nil {
		return err
	}
	without, err := measure("without-models", func(*stage) error { return nil })
	if err != nil {
		return err
	}
	if err := b.measure(ctx, measuring{"engine.models", with, without}); err != nil {
		return err
	}
	warm := find("engine.models").pairs.warmups
	b.add("engine.allocations", allocations["with-models"][warm:], allocations["without-models"][warm:])
	return nil
}

// runTrials measures a trial of a large job. It runs in a child.
func runTrials(ctx context.Context, b *bench) ([]float64, error) {
	provider := fake.New(fake.Options{})
	ours, err := newStage(ctx, b.dir, "hello", engineTasks, provider)
	if err != nil {
		return nil, err
	}
	took, err := ours.run(engineTrials, workers)(ctx)
	return []float64{took / engineTrials}, errors.Join(err, provider.Close())
}

// plan plans a large job, from its file to the text of plan.json.
func plan(path string, set *dataset.Set) error {
	loaded, err := config.Load(path, config.Options{})
	if err != nil {
		return err
	}
	specs := job.Plan(loaded.Job, []*dataset.Set{set}, loaded.Env)
	keys := job.Keys(specs)
	recorded, err := job.Record(loaded.Job, specs, job.RecordOptions{StartedAt: time.Now(), Dir: filepath.Dir(path)})
	text, textErr := result.Marshal(recorded)
	if len(keys) != planAgents*planTasks*planAttempts || len(text) == 0 {
		return fmt.Errorf("%d trials were planned", len(keys))
	}
	return errors.Join(job.CheckNames(keys), err, textErr)
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
			task := registry.Task{Name: name, GitURL: "https://git.example.org/datasets/datasets.git", Path: "datasets/dataset/" + name}
			task.GitCommitID = "69671fbaac6d67a7ef0dfec016cc38a64ef7a77c"
			all[n].Tasks = append(all[n].Tasks, task)
		}
	}
	text, err := json.MarshalIndent(all, "", "  ")
	path := filepath.Join(b.dir, "registry.json")
	if err := errors.Join(err, os.WriteFile(path, text, 0o644)); err != nil {
		return err
	}
	load := timed(func(ctx context.Context) error {
		loaded, err := registry.Load(ctx, path, registry.Options{})
		if err != nil {
			return err
		}
		d, err := loaded.Find("dataset-7", "")
		if err == nil && len(d.Tasks) != registryTasks {
			err = fmt.Errorf("the dataset has %d tasks", len(d.Tasks))
		}
		return err
	})
	decode := timed(func(context.Context) error {
		text, err := os.ReadFile(path)
		return errors.Join(err, json.Unmarshal(text, &[]registry.Dataset{}))
	})
	return b.measure(ctx, measuring{"registry.load", load, decode})
}

// binary measures a static, stripped binary, built like releases.
func (b *bench) binary(ctx context.Context) error {
	path := filepath.Join(b.dir, "rollout")
	if out, err := exec.CommandContext(ctx, ".ci/build-podprogram").CombinedOutput(); err != nil { // which it embeds
		return fmt.Errorf("build the program of pods: %w\n%s", err, out)
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-tags", "rollout_release", "-ldflags", "-s -w", "-o", path, "github.com/org/rollout-action/cmd/rollout")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build rollout: %w\n%s", err, out)
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	b.add("binary.size", []float64{float64(info.Size()) / 1e6})
	return b.measure(ctx, measuring{"binary.version", process(path, "version"), nil})
}
