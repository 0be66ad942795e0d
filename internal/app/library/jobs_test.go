package library_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/app/library"
	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/test/apptest"
)

func TestListedJobsKnowWhetherTheyRun(t *testing.T) {
	h, _ := apptest.New(t)
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	state := func() library.JobState {
		t.Helper()
		jobs, err := library.ListJobs(t.Context(), h, library.JobsRequest{Dir: "jobs"})
		if err != nil || len(jobs.List) != 1 || !jobs.List[0].StartedAt.Equal(began) || jobs.List[0].TotalTrials != 1 {
			t.Fatalf("%+v, %v", jobs, err)
		}
		finished, err := reporting.Report(t.Context(), h, reporting.ReportRequest{Dir: "jobs/one"})
		if err != nil || !finished.NoResult || finished.Running != (jobs.List[0].State == library.JobRunning) {
			t.Errorf("the report of a job in the state %s: %+v, %v", jobs.List[0].State, finished, err)
		}
		return jobs.List[0].State
	}
	dir := h.Path("jobs/one")
	apptest.PlannedJob(t, dir, began)
	if got := state(); got != library.JobKilled {
		t.Errorf("without a lock: %s", got)
	}
	lock, err := job.TakeLock(dir, began)
	if err != nil {
		t.Fatal(err)
	}
	if got := state(); got != library.JobRunning {
		t.Errorf("with a lock: %s", got)
	}
	// A holder in another container cannot be checked: the lock itself decides.
	if err := os.WriteFile(filepath.Join(dir, result.LockFile), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := state(); got != library.JobRunning {
		t.Errorf("with a lock of an unknown process: %s", got)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, result.LockFile), []byte("{}"), 0o644); err != nil { // as a killed process leaves it
		t.Fatal(err)
	}
	if got := state(); got != library.JobKilled {
		t.Errorf("with the file of a lock: %s", got)
	}
}

func TestOldJobsAreNotReadAsAWhole(t *testing.T) {
	h, _ := apptest.New(t)
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i := range 5 {
		apptest.PlannedJob(t, h.Path("jobs/"+strconv.Itoa(i)), began.Add(time.Duration(i)*time.Hour))
	}
	// The damage at the end of the oldest plan does not show at its beginning.
	oldest := filepath.Join(h.Path("jobs/0"), result.PlanFile)
	text := `{"job_name": "0", "started_at": "2026-01-02T03:04:05Z", "tasks": 7}`
	if err := os.WriteFile(oldest, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	jobs, err := library.ListJobs(t.Context(), h, library.JobsRequest{Dir: "jobs", Limit: 4})
	if err != nil || jobs.Total != 5 || len(jobs.List) != 4 || jobs.List[0].Name != "4" || jobs.List[3].Name != "1" {
		t.Errorf("%+v, %v", jobs, err)
	}
	jobs, err = library.ListJobs(t.Context(), h, library.JobsRequest{Dir: "jobs"})
	if err != nil || len(jobs.List) != 5 || jobs.List[4].State != library.JobUnreadable || jobs.List[4].Error == "" {
		t.Errorf("%+v, %v", jobs, err)
	}
}
