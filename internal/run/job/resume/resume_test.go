package resume

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/job"
)

func TestResumedJobEqualsARun(t *testing.T) {
	r := newRestart(t)
	r.first()
	r.must(os.Remove(r.in("a/d/two__1/result.json")))
	r.write("a/d/two__1/logs/old.txt", "of the first run")
	r.fail(1, result.EnvironmentStartFailed)
	r.write("a/d/two__2/result.json", `{"task_name": "tw`)
	r.clock = r.clock.Add(time.Hour)
	job := r.again(RerunPolicy{})
	r.wantRan("one__1", "two__1", "two__2")
	r.wantCounted(job)
	if job.CompletedTrials != 4 || job.Cancelled {
		t.Errorf("the job is %+v", job.Summary)
	}
	if _, err := os.Stat(r.in("a/d/two__1/logs")); err == nil {
		t.Error("files of the first run are among those of the second")
	}
	if _, err := os.Stat(r.in("superseded/a/d/two__1/logs/old.txt")); err != nil {
		t.Errorf("files of the first run are lost: %v", err)
	}
	// The remaining files prove two minutes of the first run, the second took three. Nothing ran
	// for an hour and two minutes.
	if job.TotalDurationSec != 5*60 {
		t.Errorf("the job took %g s, want 300", job.TotalDurationSec)
	}
	if !job.StartedAt.Equal(time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)) {
		t.Errorf("the job started at %s", job.StartedAt)
	}
}

func TestEarlierResultCountsUntilItsTrialBegins(t *testing.T) {
	r := newRestart(t)
	r.first()
	r.fail(1, result.EnvironmentStartFailed)
	r.fail(2, result.AgentExecutionTimeout)
	tree, pending := r.reopen(RerunPolicy{Types: []result.ErrorType{result.AgentExecutionTimeout}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	job, err := r.run(ctx, tree, r.todo(pending), pending.Earlier)
	r.must(err)
	r.wantRan()
	r.wantCounted(job)
	if job.FailedTrials != 2 || job.Errors[result.AgentExecutionTimeout] != 1 || job.SkippedTrials != 0 {
		t.Errorf("a resume that was cancelled at once has lost results: %+v, %v", job.Summary, job.Errors)
	}
}

func TestTrialThatCannotBeSupersededIsNotRun(t *testing.T) {
	r := newRestart(t)
	r.first()
	r.fail(1, result.EnvironmentStartFailed)
	r.fail(2, result.EnvironmentStartFailed)
	before, err := os.ReadFile(r.in("a/d/one__1/result.json"))
	r.must(err)
	tree, pending := r.reopen(RerunPolicy{})
	r.write("superseded", "in the way")
	job, err := r.run(t.Context(), tree, r.todo(pending), pending.Earlier)
	if err == nil || !strings.Contains(err.Error(), "its earlier result stays") {
		t.Errorf("the run ends with %v", err)
	}
	r.wantRan()
	r.wantCounted(job)
	if after, err := os.ReadFile(r.in("a/d/one__1/result.json")); err != nil || string(after) != string(before) {
		t.Errorf("the earlier result is %s, %v", after, err)
	}
}

func TestAttemptsMayGrow(t *testing.T) {
	r := newRestart(t)
	before := r.first()
	r.cfg.NAttempts, r.specs = 3, r.plan(3, "task")
	changes, err := r.open().Drift(r.cfg, r.record())
	if err != nil || len(changes) != 0 {
		t.Fatalf("it has drifted: %v, %v", changes, err)
	}
	job := r.again(RerunPolicy{})
	r.wantRan("one__3", "two__3")
	r.wantCounted(job)
	if job.TotalTrials != 6 || job.PlanDigest == before.PlanDigest || job.PlanDigest != r.record().Digest {
		t.Errorf("the job is %+v", job)
	}

	// Killed between the configuration and the plan, the job has more attempts than planned.
	r.cfg.NAttempts, r.specs = 4, r.plan(4, "task")
	r.must(result.WriteJSON(r.in(result.ConfigFile), r.cfg))
	if changes, err := r.open().Drift(r.cfg, r.record()); err != nil || len(changes) != 0 {
		t.Errorf("it has drifted: %v, %v", changes, err)
	}
	r.again(RerunPolicy{})
	r.wantRan("one__4", "two__4")

	r.cfg.NAttempts, r.specs = 3, r.plan(3, "task")
	changes, err = r.open().Drift(r.cfg, r.record())
	if err != nil || len(changes) != 1 || changes[0].Key != "n_attempts" {
		t.Errorf("fewer attempts are told as %v, %v", changes, err)
	}
}

func TestDirectoriesThatNoRunWritesAreRefused(t *testing.T) {
	outside := t.TempDir()
	for name, damage := range map[string]func(r *restart){
		"a result that is a link": func(r *restart) {
			r.must(os.Rename(r.in("a/d/one__1/result.json"), filepath.Join(outside, "r")))
			r.must(os.Symlink(filepath.Join(outside, "r"), r.in("a/d/one__1/result.json")))
		},
		"a trial's directory that is a link": func(r *restart) {
			r.must(os.RemoveAll(r.in("a/d/one__1")))
			r.must(os.Symlink(outside, r.in("a/d/one__1")))
		},
		"an agent's directory that is a link": func(r *restart) {
			r.must(os.RemoveAll(r.in("a")))
			r.must(os.Symlink(outside, r.in("a")))
		},
		"a file for a trial's directory": func(r *restart) {
			r.must(os.RemoveAll(r.in("a/d/one__1")))
			r.write("a/d/one__1", "")
		},
		"the result of another trial": func(r *restart) {
			text, err := os.ReadFile(r.in("a/d/one__2/result.json"))
			r.must(err)
			r.write("a/d/one__1/result.json", string(text))
		},
		"the result of another version of the task": func(r *restart) {
			text, err := os.ReadFile(r.in("a/d/one__1/result.json"))
			r.must(err)
			r.write("a/d/one__1/result.json", strings.Replace(string(text), "sha256:", "sha256:0", 1))
		},
		"a plan without a digest": func(r *restart) {
			plan := r.open().Plan
			plan.Digest = ""
			r.must(result.WriteJSON(r.in(result.PlanFile), plan))
		},
		"a torn plan": func(r *restart) { r.write(result.PlanFile, `{"job_name": "j"`) },
		"a plan with trials in one directory": func(r *restart) {
			plan := r.open().Plan
			plan.Trials.Append(plan.Trials.At(0))
			r.must(result.WriteJSON(r.in(result.PlanFile), plan))
		},
		"a plan that is a link": func(r *restart) {
			r.must(os.Rename(r.in(result.PlanFile), filepath.Join(outside, "plan.json")))
			r.must(os.Symlink(filepath.Join(outside, "plan.json"), r.in(result.PlanFile)))
		},
		"no configuration": func(r *restart) { r.must(os.Remove(r.in(result.ConfigFile))) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRestart(t)
			r.first()
			damage(r)
			stored, err := Load(r.dir)
			if err == nil {
				_, err = stored.Pending(r.record(), RerunPolicy{})
			}
			var refusal job.Refusal
			if !errors.As(err, &refusal) {
				t.Errorf("it is told as %v", err)
			} else {
				t.Log(err)
			}
		})
	}
}
