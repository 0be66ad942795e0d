package sidebyside_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/app"
	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/apptest"
	"github.com/org/rollout-action/internal/test/testenv"
)

// changed returns the host of a repository whose commit main has an agent that solves the task. The
// working tree has one that does not, and nop.
func changed(t *testing.T) (*host.Host, *apptest.Recorder) {
	t.Helper()
	testenv.NeedGit(t)
	h, out := apptest.New(t)
	store := t.TempDir()
	h.Getenv = func(name string) (string, bool) {
		value, ok := map[string]string{"ROLLOUT_CACHE_DIR": store, "HOME": store, "PATH": os.Getenv("PATH")}[name]
		return value, ok
	}
	write := func(execute string) {
		t.Helper()
		job := "name: nightly\nn_concurrent_trials: 1\nenvironment: {type: fake}\nagents: [{name: mine, execute: \"" + execute + "\"}, {name: nop}]\ndatasets: [{path: evals}]\n"
		if err := os.WriteFile(h.Path("job.yaml"), []byte(job), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("touch /done")
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "one"}} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = h.Dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, text)
		}
	}
	write("true")
	return h, out
}

func against(ref string) stages.RunRequest {
	return stages.RunRequest{Job: stages.JobRequest{File: "job.yaml"}, Against: ref}
}

// Both sides of a changed agent run; trials that are the same in both run once, and count for both.
func TestTheBaselineRunsWithTheJob(t *testing.T) {
	h, out := changed(t)
	finished, err := app.Run(t.Context(), h, against("main"))
	if err != nil {
		t.Fatal(err)
	}
	if finished.Input.Diff == nil || finished.Input.Job.TotalTrials != 2 || finished.Input.Diff.Base.TotalTrials != 2 {
		t.Fatalf("%+v", finished.Input.Job)
	}
	changes := map[string]result.Change{}
	for _, task := range finished.Input.Diff.Tasks {
		changes[task.Agent] = task.Change
	}
	if changes["mine"] != result.Broken {
		t.Errorf("the tasks changed so: %v", changes)
	}
	ended := 0
	for _, kind := range out.Events {
		if kind == event.TrialEnded {
			ended++
		}
	}
	if text := strings.Join(out.Lines, "\n"); ended != 3 || !strings.Contains(text, "runs with this job: 3 trials instead of 2, because trials that are the same in both run once") {
		t.Errorf("%d trials ended, and it says %q", ended, text)
	}
	dirs, err := filepath.Glob(h.Path("jobs/nightly-against-*/mine/evals/one__1/result.json"))
	if err != nil || len(dirs) != 1 {
		t.Errorf("results of the baseline: %v, %v", dirs, err)
	}
}

// A pair that was cancelled is continued by the command that it names, and runs only the rest.
func TestACancelledPairGoesOn(t *testing.T) {
	h, out := changed(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	connect := h.Providers[0].New
	apptest.CancelAt(h, 2, cancel)
	req := against("main")
	req.Arguments = []string{"run", "job.yaml", "--against", "main"}
	finished, err := app.Run(ctx, h, req)
	if err != nil || finished.Outcome != host.Stopped {
		t.Fatalf("outcome %v, %v", finished.Outcome, err)
	}
	if with := finished.ResumeWith; !strings.HasPrefix(with, "rollout run job.yaml --against ") || !strings.HasSuffix(with, " --resume") || strings.Contains(with, " main") {
		t.Errorf("it is continued with %q", with)
	}
	commit := finished.Input.Plan.Beside.Commit
	h.Providers[0].New, out.Events = connect, nil
	again := against(commit)
	again.Resume = true
	finished, err = app.Run(t.Context(), h, again)
	if err != nil || finished.Input.Job.CompletedTrials != 2 || finished.Input.Diff == nil || finished.Input.Diff.Base.CompletedTrials != 2 {
		t.Fatalf("%+v, %v", finished.Input.Job.Summary, err)
	}
	started := 0
	for _, kind := range out.Events {
		if kind == event.TrialStarted {
			started++
		}
	}
	if started == 0 || started > 3 {
		t.Errorf("%d trials were started again", started)
	}
	alone := stages.RunRequest{Job: stages.JobRequest{File: "two.yaml"}}
	if _, err := app.Run(t.Context(), h, alone); err != nil {
		t.Fatal(err)
	}
	alone.Against, alone.Resume = "main", true
	_, err = app.Run(t.Context(), h, alone)
	apptest.Refused(t, err, "jobs/two began with another --against or --confirm-against, or with neither")
}

// Nothing runs if the baseline cannot be had.
func TestBaselinesThatCannotRun(t *testing.T) {
	h, _ := changed(t)
	_, err := app.Run(t.Context(), h, against("nowhere"))
	apptest.Refused(t, err, "--against nowhere")
	if err := os.WriteFile(h.Path("new.yaml"), []byte("environment: {type: fake}\nagents: [{name: nop}]\ndatasets: [{path: evals}]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	added := against("main")
	added.Job.File = "new.yaml"
	if _, err = app.Run(t.Context(), h, added); err == nil || !strings.Contains(err.Error(), "new.yaml") {
		t.Errorf("a job file that the commit lacks: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = app.Run(ctx, h, against("main")); !errors.Is(err, host.ErrCancelled) && !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before it began: %v", err)
	}
	outside, _ := apptest.New(t)
	outside.Getenv = h.Getenv
	_, err = app.Run(t.Context(), outside, against("main"))
	apptest.Refused(t, err, "--against main")
	if left, err := os.ReadDir(h.Path("jobs")); err == nil {
		t.Errorf("something was started: %v", left)
	}
}
