package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/job/merge"
	"github.com/org/rollout-action/internal/test/apptest"
	"github.com/org/rollout-action/internal/test/jobtest"
	"github.com/org/rollout-action/reporters"
)

// sizeOf returns the size of a job with about so many trials: ten agents, five attempts, a task
// for each fifty trials. A million trials have 256 shards.
func sizeOf(trials int) jobtest.Size {
	return jobtest.Size{Tasks: max(1, trials/50), Agents: 10, Attempts: 5, Shards: 256}
}

// size measures a job of --trials trials from the shards to its reports: merged, compared with an
// earlier run, judged by its gate, reported.
func (b *bench) size(ctx context.Context) error {
	dir := filepath.Join(b.dir, "size")
	if err := sizeOf(b.trials).Write(filepath.Join(dir, "shards")); err != nil {
		return fmt.Errorf("write the shards: %w", err)
	}
	if _, err := b.inChild("size", "size-base")(ctx); err != nil {
		return fmt.Errorf("make the baseline: %w", err)
	}
	if err := b.measure(ctx, measuring{"size.time", b.inChild("size", "size"), b.inChild("size", "size-floor")}); err != nil {
		return err
	}
	var each []float64
	for _, peak := range b.peaks["size"] {
		each = append(each, peak*1000/float64(sizeOf(b.trials).Trials()))
	}
	b.add("size.memory", each)
	return nil
}

// sizeBase merges the shards and writes the result, changed a little, as the baseline. It runs in a
// child.
func sizeBase(ctx context.Context, b *bench) error {
	parent := filepath.Dir(b.dir)
	merged, err := merge.Run(ctx, merge.Options{Paths: []string{filepath.Join(parent, "shards")}, Output: b.dir})
	if err != nil {
		return err
	}
	job := merged.Job
	job.Commit = nil
	for i := range job.Results.Len() {
		job.Results.Change(i, func(o *result.Outcome) {
			o.StartedAt = o.StartedAt.AddDate(0, 0, -1) // another run
			if i%13 == 0 {
				o.Reward = new(1 - *o.Reward)
			}
		})
	}
	return result.WriteJSON(filepath.Join(parent, "base.json"), job)
}

// mergeAndReport does what rollout merge does with a baseline, a gate and reports. It runs in a
// child.
func mergeAndReport(ctx context.Context, b *bench) error {
	parent := filepath.Dir(b.dir)
	h := &host.Host{
		Paths: host.Paths{Dir: parent}, Now: time.Now, Reporters: reporters.All, Output: &apptest.Recorder{},
		Variables: host.Variables{Getenv: func(string) (string, bool) { return "", false }},
	}
	finished, err := reporting.Merge(ctx, h, reporting.MergeRequest{
		Paths: []string{filepath.Join(parent, "shards")}, Output: b.dir,
		Report: reporting.ReportOptions{Baseline: filepath.Join(parent, "base.json"), GitHub: "off", Files: []reporting.ReportFile{
			{Format: reporters.Summary, Path: filepath.Join(parent, "report.md")}, {Format: reporters.Cases, Path: filepath.Join(parent, "report.xml")},
		}},
	})
	if err == nil && (finished.Input.Job.TotalTrials == 0 || finished.Input.Diff == nil) {
		err = fmt.Errorf("the report is not whole: %v", finished.Input.Incomplete)
	}
	return err
}

// linkTree links the same tree with cp, which is the floor. It runs in a child.
func linkTree(ctx context.Context, b *bench) error {
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return err
	}
	_, err := process("cp", "-al", filepath.Join(filepath.Dir(b.dir), "shards"), filepath.Join(b.dir, "copy"))(ctx)
	return err
}
