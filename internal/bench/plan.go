package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing/fstest"
	"time"

	"github.com/org/rollout-action/internal/config"
	"github.com/org/rollout-action/internal/dataset"
	"github.com/org/rollout-action/internal/job"
	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/internal/task"
)

// A plan of 100,000 trials.
const (
	planAgents   = 10
	planTasks    = 1000
	planAttempts = 10
)

// plan measures planning a large job, from its file to the text of plan.json.
func (b *bench) plan(ctx context.Context) error {
	b.logf("engine: planning %d trials", planAgents*planTasks*planAttempts)
	path, err := writeLarge(filepath.Join(b.dir, "plan"), planAgents, planAttempts)
	if err != nil {
		return err
	}
	set := &dataset.Set{Name: "large"}
	for n := range planTasks {
		set.Tasks = append(set.Tasks, &task.Task{Name: fmt.Sprintf("a-task-with-a-name-%04d", n), FS: fstest.MapFS{
			"instruction.md": {Data: []byte(fmt.Sprint("Do number ", n))}, "tests/test.sh": {Data: []byte("true")},
		}})
	}
	values, err := turns(ctx, 1, b.fewer(4, 3), timed(func(context.Context) error { return planLarge(path, set) }))
	if err != nil {
		return err
	}
	b.add(newResult("engine.plan", "ms",
		series{"100,000 trials from job.yaml to plan.json, tasks loaded before", values[0]}, series{}, atMost("ours", 1000)))
	return nil
}

func planLarge(path string, set *dataset.Set) error {
	loaded, err := config.Load(path, config.Options{})
	if err != nil {
		return err
	}
	specs := job.Plan(loaded.Job, []*dataset.Set{set}, loaded.Env)
	keys := job.Keys(specs)
	if err := job.CheckNames(keys); err != nil {
		return err
	}
	plan, err := job.Record(loaded.Job, specs, job.RecordOptions{StartedAt: time.Now(), Dir: filepath.Dir(path)})
	if err != nil {
		return err
	}
	text, err := result.Marshal(plan)
	if err == nil && (len(keys) != planAgents*planTasks*planAttempts || len(text) == 0) {
		err = fmt.Errorf("%d trials were planned", len(keys))
	}
	return err
}

func agentName(n int) string { return fmt.Sprintf("an-agent-%d", n) }

// writeLarge writes a job file with many agents; its dataset is an empty directory.
func writeLarge(dir string, agentCount, attempts int) (string, error) {
	if err := os.MkdirAll(filepath.Join(dir, "large"), 0o755); err != nil {
		return "", err
	}
	var agents []any
	for n := range agentCount {
		agents = append(agents, map[string]any{"name": agentName(n), "execute": helloExecute})
	}
	text, err := json.Marshal(map[string]any{
		"n_attempts": attempts, "agents": agents, "datasets": []any{map[string]any{"path": "large"}},
	})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "job.json")
	return path, os.WriteFile(path, text, 0o644)
}
