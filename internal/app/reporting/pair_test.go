package reporting

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/app/host"
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
	if got := againstCommand(host.Paths{}, in, base, nil); !strings.HasSuffix(got, " --name now-again --against 1111111 --task falls") {
		t.Errorf("got %q", got)
	}
	ran := []string{"evals/job.yaml", "--env-type=fake", "--set=agents.0.execute=echo $HOME"}
	if got := againstCommand(host.Paths{}, in, base, ran); !strings.HasSuffix(got, ": rollout run evals/job.yaml --env-type=fake '--set=agents.0.execute=echo $HOME' --name now-again --against 1111111 --task falls") {
		t.Errorf("got %q", got)
	}
	in.Job.Cancelled = true
	if got := againstCommand(host.Paths{}, in, base, nil); got != "" {
		t.Errorf("of a cancelled job: %q", got)
	}
}

// A printed command has the path of the job file where it is known: where the job was planned, or
// below the current directory, when only the directory of the job is on this machine.
func TestPrintedCommandsNameTheJobFile(t *testing.T) {
	top := t.TempDir()
	for name, text := range map[string]string{"evals/job.yaml": "", "jobs/now/plan.json": "", "evals/my job.yaml": "", "outside.yaml": ""} {
		file := filepath.Join(top, "here", filepath.FromSlash(name))
		if name == "outside.yaml" {
			file = filepath.Join(top, name)
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	paths := host.Paths{Dir: filepath.Join(top, "here")}
	for name, c := range map[string]struct {
		plan result.Plan
		want string
	}{
		"where it was":                 {result.Plan{JobFile: "evals/job.yaml", PathsFrom: "../../evals"}, "evals/job.yaml"},
		"planned from another place":   {result.Plan{JobFile: "job.yaml", PathsFrom: "../../evals"}, "evals/job.yaml"},
		"with a space":                 {result.Plan{JobFile: "evals/my job.yaml", PathsFrom: "../../evals"}, "'evals/my job.yaml'"},
		"after a move":                 {result.Plan{JobFile: "evals/job.yaml"}, "evals/job.yaml"},
		"after a move from a runner":   {result.Plan{JobFile: "evals/job.yaml", PathsFrom: "../../../gone"}, "evals/job.yaml"},
		"it is gone":                   {result.Plan{JobFile: "evals/gone.yaml", PathsFrom: "../../evals"}, "JOB_FILE"},
		"another directory on purpose": {result.Plan{JobFile: "../outside.yaml"}, "JOB_FILE"},
		"with flags":                   {result.Plan{JobFile: "evals/job.yaml", PathsFrom: "../../evals", JobFlags: true}, "evals/job.yaml FLAGS"},
		"none":                         {result.Plan{PathsFrom: "../../evals"}, "JOB_FILE"},
	} {
		if got := jobFile(paths, "jobs/now", c.plan); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	commit := strings.Repeat("1", 40)
	plan := result.Plan{JobName: "now", JobFile: "evals/job.yaml", Beside: &result.Beside{Commit: commit, JobName: "now-against-1111111"}}
	want := "rollout run evals/job.yaml --name now --against " + commit + " --resume"
	if got := PairResumption(paths, "jobs/now", plan, ReportOptions{}); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
