//go:build linux

package main

import (
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
)

// A job that never ends is ended by its time budget, and leaves nothing. It does not count as
// cancelled.
func TestBudgetEndsHangingJob(t *testing.T) {
	sideBySide(t, providersHere, func(t *testing.T, provider string) {
		j := hangingJob(t, provider, 4)
		r := j.start(t, "job.yaml", "--n-concurrent", "2", "--budget-duration", "3s")
		if code := r.exit(t); code != 1 {
			t.Errorf("exit code %d, want 1", code)
		}
		res := j.result(t)
		if res.Errors[result.Cancelled] != 2 || res.SkippedTrials != 2 || len(res.Stopped) != 1 || res.Stopped[0].Reason != result.StopBudgetDuration {
			t.Errorf("result.json says %+v, errors %v, stopped %+v", res.Summary, res.Errors, res.Stopped)
		}
		for _, said := range []string{"the job has run for 3s (budget.max_duration)", "2 trials were cancelled", "Resume it with: rollout resume jobs/" + j.name + " --budget-duration LONGER"} {
			if !strings.Contains(strings.Join(strings.Fields(r.output.String()), " "), said) {
				t.Errorf("it does not say %q", said)
			}
		}
		j.wantLeft(t, 0, "after the job")
	})
}
