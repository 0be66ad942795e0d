package reporting

import (
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
)

// A job that got worse is run again together with its baseline, unless trials of it are missing.
func TestAgainstCommand(t *testing.T) {
	commit := strings.Repeat("1", 40)
	base := &result.Job{Commit: &commit}
	in := report.Input{
		Plan: result.Plan{JobName: "now", Commit: &commit}, Verdict: gate.Verdict{Outcome: gate.Fail},
		Diff: &result.Diff{Tasks: []result.TaskDiff{{Agent: "a", Dataset: "d", Task: "falls", Change: result.Broken}}},
	}
	if got := againstCommand(in, base, nil); !strings.HasSuffix(got, " --name now-again --against 1111111 --task falls") {
		t.Errorf("got %q", got)
	}
	ran := []string{"evals/job.yaml", "--env-type=fake", "--set=agents.0.execute=echo $HOME"}
	if got := againstCommand(in, base, ran); !strings.HasSuffix(got, ": rollout run evals/job.yaml --env-type=fake '--set=agents.0.execute=echo $HOME' --name now-again --against 1111111 --task falls") {
		t.Errorf("got %q", got)
	}
	in.Job.Cancelled = true
	if got := againstCommand(in, base, nil); got != "" {
		t.Errorf("of a cancelled job: %q", got)
	}
}
