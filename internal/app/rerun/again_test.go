package rerun_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/app"
	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/app/rerun"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/test/apptest"
)

// interrupted returns the host of a job that was cancelled after its first trial.
func interrupted(t *testing.T) (*host.Host, *apptest.Recorder) {
	t.Helper()
	h, out := apptest.New(t)
	write(t, h, "job.yaml", "name: nightly\nn_concurrent_trials: 1\nenvironment: {type: fake}\nagents: [{name: oracle}, {name: nop}]\ndatasets: [{path: evals}]\n")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	connect := h.Providers[0].New
	apptest.CancelAt(h, 2, cancel)
	finished, err := app.Run(ctx, h, stages.RunRequest{Job: stages.JobRequest{File: "job.yaml"}})
	if err != nil || finished.Outcome != host.Stopped || finished.Input.Job.CompletedTrials != 1 {
		t.Fatalf("%+v, %v", finished, err)
	}
	if !strings.HasPrefix(finished.ResumeWith, "rollout resume jobs/nightly") {
		t.Errorf("it is continued with %q", finished.ResumeWith)
	}
	h.Providers[0].New, out.Lines, out.Events = connect, nil, nil
	return h, out
}

func write(t *testing.T, h *host.Host, name, text string) {
	t.Helper()
	if err := os.WriteFile(h.Path(name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestResumeRunsTheRestOfACancelledJob(t *testing.T) {
	h, out := interrupted(t)
	finished, err := rerun.Resume(t.Context(), h, stages.ResumeRequest{Dir: "jobs/nightly"})
	if err != nil || finished.Outcome != host.Passed || finished.Input.Job.CompletedTrials != 2 {
		t.Fatalf("%+v, %v", finished, err)
	}
	started := 0
	for _, kind := range out.Events {
		if kind == event.TrialStarted {
			started++
		}
	}
	if started != 1 {
		t.Errorf("%d trials were started, want the one that was left", started)
	}
}

// A job that is other work than when it began is not continued, and each difference is named.
func TestResumeRefusesOtherWork(t *testing.T) {
	h, out := interrupted(t)
	write(t, h, "evals/one/tests/test.sh", "echo 1 >/logs/verifier/reward.txt\n")
	_, err := rerun.Resume(t.Context(), h, stages.ResumeRequest{Dir: "jobs/nightly"})
	apptest.Refused(t, err, "it is no longer the same work as when it began (1 difference)")
	if text := strings.Join(out.Lines, "\n"); !strings.Contains(text, "one") || len(out.Events) > 0 {
		t.Errorf("%d events, and it says %q", len(out.Events), text)
	}
}

func TestResumeRefusesWhatIsNoJob(t *testing.T) {
	h, _ := interrupted(t)
	for name, dir := range map[string]string{
		"a file": "job.yaml", "a directory of tasks": "evals", "nothing": "jobs/none",
	} {
		if _, err := rerun.Resume(t.Context(), h, stages.ResumeRequest{Dir: dir}); err == nil {
			t.Errorf("%s was resumed", name)
		}
	}
	_, err := rerun.Resume(t.Context(), h, stages.ResumeRequest{Dir: "jobs/nightly", Rerun: stages.RerunRequest{RetryErrors: []string{"no_such_error"}}})
	apptest.Refused(t, err, "no_such_error")
	_, err = rerun.Resume(t.Context(), h, stages.ResumeRequest{Dir: "jobs/nightly", Report: reporting.ReportOptions{Baseline: "jobs/none"}})
	apptest.Refused(t, err, "jobs/none")
	write(t, h, "jobs/nightly/plan.json", "{")
	if _, err = rerun.Resume(t.Context(), h, stages.ResumeRequest{Dir: "jobs/nightly"}); err == nil || !strings.Contains(err.Error(), "plan.json") {
		t.Errorf("a plan that is cut off: %v", err)
	}
}

// One process at a time works on a job.
func TestAJobThatRunsIsNotResumed(t *testing.T) {
	h, _ := interrupted(t)
	lock, err := job.TakeLock(h.Path("jobs/nightly"), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func() error{
		"resume": func() error {
			_, err := rerun.Resume(t.Context(), h, stages.ResumeRequest{Dir: "jobs/nightly"})
			return err
		},
		"verify": func() error {
			_, err := rerun.Verify(t.Context(), h, rerun.VerifyRequest{Dir: "jobs/nightly"})
			return err
		},
		"rejudge": func() error {
			_, err := rerun.Rejudge(t.Context(), h, rerun.RejudgeRequest{Dir: "jobs/nightly", Times: 1})
			return err
		},
	} {
		var usage *host.UsageError
		if err := do(); !errors.As(err, &usage) || !strings.Contains(err.Error(), "jobs/nightly") {
			t.Errorf("%s of a job that runs: %v", name, err)
		}
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if _, err := rerun.Resume(t.Context(), h, stages.ResumeRequest{Dir: "jobs/nightly"}); err != nil {
		t.Errorf("after the other process has ended: %v", err)
	}
}

func TestRejudgeRefusesWhatItCannotJudge(t *testing.T) {
	h, _ := ran(t)
	for want, req := range map[string]rerun.RejudgeRequest{
		"--times 0: want a number from 1 to 100":   {Dir: "jobs/nightly"},
		"--times 101: want a number from 1 to 100": {Dir: "jobs/nightly", Times: 101},
		"there is no such directory":               {Dir: "jobs/none", Times: 1},
		"cannot be the name of a directory":        {Dir: "jobs/nightly", Times: 1, Name: "../out"},
		"jobs/nightly":                             {Dir: "jobs/nightly", Times: 1},
	} {
		done, err := rerun.Rejudge(t.Context(), h, req)
		apptest.Refused(t, err, want)
		if done != nil {
			t.Errorf("%s: %+v", want, done)
		}
	}
	if _, err := os.Stat(h.Path("jobs/nightly-rejudged")); err == nil {
		t.Error("a job was made")
	}
}

// A cancelled resume ends before it starts a trial, and the job can go on.
func TestAResumeThatIsCancelledLosesNothing(t *testing.T) {
	h, out := interrupted(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	finished, err := rerun.Resume(ctx, h, stages.ResumeRequest{Dir: "jobs/nightly"})
	if err == nil && finished.Outcome != host.Stopped || slices.Contains(out.Events, event.TrialStarted) {
		t.Errorf("%+v, %v", finished, err)
	}
	finished, err = rerun.Resume(t.Context(), h, stages.ResumeRequest{Dir: "jobs/nightly"})
	if err != nil || finished.Input.Job.CompletedTrials != 2 {
		t.Fatalf("%+v, %v", finished, err)
	}
}
