package sidebyside

import (
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/run/job/reuse"
)

func TestRequestsThatCannotRunWithABaselineAreRefused(t *testing.T) {
	against := stages.RunRequest{Against: "main"}
	for name, tc := range map[string]struct {
		req     stages.RunRequest
		change  func(*stages.RunRequest)
		sources []reuse.Source
		want    string // part of the error; "": none
	}{
		"a baseline that runs":        {req: against},
		"two baselines that run":      {req: against, change: func(r *stages.RunRequest) { r.ConfirmAgainst = "main" }, want: "leave one of them out"},
		"a stored baseline, too":      {req: against, change: func(r *stages.RunRequest) { r.Report.Baseline = "jobs/old" }, want: "--baseline has no use"},
		"confirming without one":      {req: stages.RunRequest{ConfirmAgainst: "main"}, want: "name that one with --baseline"},
		"confirming without a gate":   {req: stages.RunRequest{ConfirmAgainst: "main", Report: reporting.ReportOptions{Baseline: "jobs/old"}}, want: "--max-broken-tasks 0 --confirm 4"},
		"ending at the first":         {req: against, change: func(r *stages.RunRequest) { r.FailFast = true }, want: "leave out --against or --fail-fast"},
		"results from another time":   {req: against, sources: make([]reuse.Source, 1), want: "--reuse takes results from another time"},
		"only trials that had failed": {req: against, change: func(r *stages.RunRequest) { r.Rerun.OnlyFailed = true }, want: "give them to rollout resume"},
	} {
		if tc.change != nil {
			tc.change(&tc.req)
		}
		p := &stages.Planned{Loaded: &stages.Loaded{Loaded: &config.Loaded{}}}
		err := checkBeside(p, tc.req, tc.sources)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

func TestWithoutFlags(t *testing.T) {
	args := []string{"run", "--against", "main", "a.yaml", "--name=ai", "--names", "x", "--name", "ai", "--", "--name", "y"}
	want := []string{"run", "a.yaml", "--names", "x", "--", "--name", "y"}
	if got := withoutFlags(args, []string{"--against", "--name"}); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
