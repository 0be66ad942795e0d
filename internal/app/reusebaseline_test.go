package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/app"
	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/forge/github"
	"github.com/org/rollout-action/internal/test/apptest"
)

// forks is the guard of a run for a fork, and admits all files.
type forks struct{}

func (forks) Admit(path string) (string, error) { return path, nil }
func (forks) AdmitCommit(string, string) error  { return nil }
func (forks) Commit() string                    { return strings.Repeat("a", 40) }
func (forks) Settings(_ []environment.ConfigKey, cfg map[string]any) (map[string]any, error) {
	return cfg, nil
}

// A baseline whose results may not be taken over is named with the reason, also in CI, where
// reasons that each run has are not repeated.
func TestReuseBaselineIsRefusedWithAReason(t *testing.T) {
	for name, c := range map[string]struct {
		fork     bool
		version  string
		baseline string
		want     string // "": nothing is said
	}{
		"of a fork with secrets": {fork: true, baseline: "base/result.json", want: "the baseline is a file, which a fork may have written"},
		"of other rules":         {version: "v1.2.0", baseline: "base/result.json", want: "the baseline is of Rollout v1.2.0, whose rules may differ"},
		"of a forged version":    {version: "v\x1b[31m9", baseline: "base/result.json", want: "the baseline is of Rollout v"},
		"of the same rules":      {version: "v1.3.7", baseline: "base/result.json", want: "does not say what its trials ran"},
		"none":                   {baseline: "none"},
		"no baseline there":      {baseline: "github:"},
	} {
		h, out := apptest.New(t)
		h.Build = "v1.3.0"
		h.GitHub = func() github.Environment {
			return github.Environment{Inside: true, Actions: github.Actions{Event: "pull_request"}}
		}
		if c.fork {
			h.Guard = forks{}
		}
		base := result.Job{JobName: "main", RolloutVersion: c.version, Agents: map[string]result.Summary{}}
		if err := os.Mkdir(filepath.Join(h.Dir, "base"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := result.WriteJSON(filepath.Join(h.Dir, "base", result.ResultFile), base); err != nil {
			t.Fatal(err)
		}
		req := stages.RunRequest{Job: stages.JobRequest{File: "job.yaml"}, Reuse: []string{stages.FromBaseline}, Report: reporting.ReportOptions{Baseline: c.baseline}}
		d, err := app.RunDry(t.Context(), h, req)
		if err != nil {
			t.Fatal(err)
		}
		said := strings.Join(out.Lines, "\n")
		if c.want == "" && strings.Contains(said, "all trials run") || !strings.Contains(said, c.want) || strings.Contains(said, "\x1b") || strings.Contains(said, "not used for the estimate") || d.Reused != 0 {
			t.Errorf("%s: %d reused, and it says %q", name, d.Reused, said)
		}
	}
}

// A dry run counts the trials that the run makes: those of the rounds that a shard was told to
// make, and at most all of a job that ends when its verdict is clear.
func TestDryRunInRounds(t *testing.T) {
	early := []config.Override{{Path: "gate.stop", Value: "early"}, {Path: "gate.max_pass_rate_drop", Value: "0"}}
	for name, c := range map[string]struct {
		shard  *result.Shard
		round  int
		trials int
		atMost bool
	}{
		"one process":          {trials: 2, atMost: true},
		"the first of a shard": {shard: &result.Shard{Index: 1, Total: 2}, round: 1, trials: 1},
	} {
		h, _ := apptest.New(t)
		if err := result.WriteJSON(filepath.Join(h.Dir, "base.json"), result.Job{JobName: "main", Agents: map[string]result.Summary{}}); err != nil {
			t.Fatal(err)
		}
		req := stages.RunRequest{
			Job: stages.JobRequest{File: "two.yaml", Overrides: early}, Shard: c.shard, Round: c.round,
			Report: reporting.ReportOptions{Baseline: "base.json"},
		}
		d, err := app.RunDry(t.Context(), h, req)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if d.Estimate.Trials != c.trials || d.Estimate.AtMost != c.atMost {
			t.Errorf("%s: %d trials, at most: %v", name, d.Estimate.Trials, d.Estimate.AtMost)
		}
	}
}
