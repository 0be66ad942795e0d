package rerun_test

import (
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/app"
	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/rerun"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/test/apptest"
)

// ran returns the host of a job that has run: oracle solved its task, and nop did not.
func ran(t *testing.T) (*host.Host, *apptest.Recorder) {
	t.Helper()
	h, out := apptest.New(t)
	if _, err := app.Run(t.Context(), h, stages.RunRequest{Job: stages.JobRequest{File: "job.yaml"}}); err != nil {
		t.Fatal(err)
	}
	out.Lines = nil
	return h, out
}

func TestResumeRunsNothingOfAJobThatIsDone(t *testing.T) {
	h, out := ran(t)
	finished, err := rerun.Resume(t.Context(), h, stages.ResumeRequest{Dir: "jobs/nightly"})
	if err != nil || finished.Input.Job.CompletedTrials != 2 {
		t.Fatalf("%+v, %v", finished, err)
	}
	if text := strings.Join(out.Lines, "\n"); !strings.Contains(text, "Nothing to run: 2 of 2 trials in jobs/nightly are done") {
		t.Errorf("reported %q", text)
	}
}

func TestResumeRunsTheNamedTrialAgain(t *testing.T) {
	h, out := ran(t)
	out.Events = nil
	finished, err := rerun.Resume(t.Context(), h, stages.ResumeRequest{Dir: "jobs/nightly", Rerun: stages.RerunRequest{Trials: []string{"nop/one"}}})
	if err != nil || finished.Input.Job.CompletedTrials != 2 || finished.Input.Job.PassRate != 0.5 {
		t.Fatalf("%+v, %v", finished, err)
	}
	if text := strings.Join(out.Lines, "\n"); len(out.Events) == 0 || strings.Contains(text, "Nothing to run") {
		t.Errorf("%d events; reported %q", len(out.Events), text)
	}
}

func TestVerifyRefusesAJobThatKeptNothing(t *testing.T) {
	h, _ := ran(t)
	finished, err := rerun.Verify(t.Context(), h, rerun.VerifyRequest{Dir: "jobs/nightly"})
	apptest.Refused(t, err, "jobs/nightly")
	if finished != nil {
		t.Errorf("verify: %+v", finished)
	}
	_, err = rerun.Verify(t.Context(), h, rerun.VerifyRequest{Dir: "jobs/none"})
	apptest.Refused(t, err, "there is no such directory")
}
