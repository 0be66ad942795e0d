package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/config"
	"github.com/org/rollout-action/internal/dataset"
	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/internal/event"
	"github.com/org/rollout-action/internal/job"
	"github.com/org/rollout-action/internal/redact"
	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/internal/task"
	"github.com/org/rollout-action/internal/trial"
)

// secretVariable is the variable with the hello job's secret.
const secretVariable = "BENCH_API_KEY"

// stage is the hello job on a provider, ready to run any number of times.
type stage struct {
	loaded   *config.Loaded
	set      *dataset.Set
	provider environment.Provider
	dir      string // where jobs are written
	runs     int
}

// newStage writes a job of some hello tasks below dir and loads it.
func newStage(ctx context.Context, dir, image string, tasks int, provider environment.Provider) (*stage, error) {
	path, err := writeHello(dir, image, tasks)
	if err != nil {
		return nil, err
	}
	loaded, err := config.Load(path, config.Options{
		Getenv: func(name string) (string, bool) { return "sk-0123456789abcdef", name == secretVariable },
	})
	if err != nil {
		return nil, err
	}
	retry := loaded.Job.Retry
	set, err := dataset.FromPaths(ctx, config.TasksDataset, loaded.TaskDirs, task.Options{})
	if err != nil {
		return nil, err
	}
	return &stage{
		loaded: loaded,
		set:    set,
		provider: environment.Retry(provider, environment.RetryPolicy{
			MaxAttempts: retry.MaxAttempts,
			Initial:     time.Duration(retry.InitialDelayMs) * time.Millisecond,
			Max:         time.Duration(retry.MaxDelayMs) * time.Millisecond,
			Multiplier:  retry.Multiplier,
		}),
		dir: filepath.Join(dir, "jobs"),
	}, nil
}

// trials measures a job of so many trials in milliseconds, and removes its directory afterwards.
func (s *stage) trials(n, workers int) measured {
	return func(ctx context.Context) (float64, error) {
		took, dir, err := s.run(ctx, n, workers)
		if err != nil {
			return 0, err
		}
		return milliseconds(took), os.RemoveAll(dir)
	}
}

// run runs a whole job of so many trials, like the run command without its terminal output. It returns the duration and the job's
// directory. It fails if not every trial passed.
func (s *stage) run(ctx context.Context, trials, workers int) (time.Duration, string, error) {
	cfg := s.loaded.Job
	s.runs++
	cfg.Name, cfg.NAttempts, cfg.NConcurrentTrials = fmt.Sprintf("bench-%d", s.runs), trials/len(s.set.Tasks), workers
	dir := filepath.Join(s.dir, cfg.Name)
	began := time.Now()
	done, failed, err := s.job(ctx, cfg, dir)
	took := time.Since(began)
	if err == nil && (done.PassRateAll != 1 || done.TotalTrials != trials) {
		err = fmt.Errorf("not every trial passed: %+v, of which one: %+v", done.Summary, failed)
	}
	return took, dir, err
}

// job runs the job. It also returns the error of a failed trial, if there is one.
func (s *stage) job(ctx context.Context, cfg config.Job, dir string) (result.Job, *result.Error, error) {
	specs := job.Plan(cfg, []*dataset.Set{s.set}, s.loaded.Env)
	plan, err := job.Record(cfg, specs, job.RecordOptions{StartedAt: time.Now(), Dir: s.dir})
	if err != nil {
		return result.Job{}, nil, err
	}
	tree, err := job.Create(dir, cfg, plan)
	if err != nil {
		return result.Job{}, nil, err
	}
	defer tree.Close()
	var mu sync.Mutex
	var failed *result.Error
	emit := func(e event.Event) {
		mu.Lock()
		defer mu.Unlock()
		tree.Sink(e)
		if e.Trial != nil && e.Trial.Error != nil {
			failed = e.Trial.Error
		}
	}
	done, err := job.Run(ctx, specs, job.Options{
		Tree: tree, Workers: cfg.NConcurrentTrials, Emit: emit, Now: time.Now,
		Runner: trial.NewRunner(trial.Options{
			Provider: s.provider, Job: cfg, Redactor: redact.New(s.loaded.Secrets), Emit: emit,
		}),
	})
	return done, failed, err
}
