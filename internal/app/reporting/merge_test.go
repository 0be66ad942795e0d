package reporting_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/app"
	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/app/rerun"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/apptest"
)

func TestUseCasesOfAJobInShards(t *testing.T) {
	h, out := apptest.New(t)
	for i := range 2 {
		finished, err := app.Run(t.Context(), h, stages.RunRequest{Job: stages.JobRequest{File: "two.yaml"}, Shard: &result.Shard{Index: i + 1, Total: 2}})
		if err != nil || finished.Outcome != host.Passed {
			t.Fatalf("shard %d: %+v, %v", i+1, finished, err)
		}
	}
	shards := []string{filepath.Join("jobs", "two.shard-1-of-2"), filepath.Join("jobs", "two.shard-2-of-2")}
	missing, err := reporting.Merge(t.Context(), h, reporting.MergeRequest{Paths: absolute(h, shards[:1])})
	if err != nil || missing.Outcome != host.Failed || len(missing.Incomplete) != 1 {
		t.Errorf("one shard: %+v, %v", missing, err)
	}
	merged, err := reporting.Merge(t.Context(), h, reporting.MergeRequest{Paths: absolute(h, shards)})
	if err != nil || merged.Outcome != host.Passed || merged.Input.Job.CompletedTrials != 2 {
		t.Fatalf("both shards: %+v, %v", merged, err)
	}
	again, err := reporting.Report(t.Context(), h, reporting.ReportRequest{Dir: merged.Input.Dir, Options: reporting.ReportOptions{Baseline: shards[0]}})
	if err != nil || again.Input.Job.PassRate != merged.Input.Job.PassRate || again.Input.Diff == nil {
		t.Errorf("report: %+v, %v", again, err)
	}
	out.Lines = nil
	resumed, err := rerun.Resume(t.Context(), h, stages.ResumeRequest{Dir: shards[0]})
	if err != nil || resumed.Outcome != host.Passed {
		t.Fatalf("resume: %+v, %v", resumed, err)
	}
	if text := strings.Join(out.Lines, "\n"); !strings.Contains(text, "Nothing to run: 1 of 1 trial in jobs/two.shard-1-of-2 is done") {
		t.Errorf("resume reported %q", text)
	}
}

func absolute(h *host.Host, dirs []string) []string {
	var out []string
	for _, dir := range dirs {
		out = append(out, h.Path(dir))
	}
	return out
}
