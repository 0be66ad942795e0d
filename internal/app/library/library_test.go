package library

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/output/page"
)

// storedJob writes a job with one passed trial into a directory.
func storedJob(t *testing.T, dir, name string) result.Key {
	t.Helper()
	key := result.Key{Agent: "a", Dataset: "d", Task: "t", Attempt: 1}
	plan := result.Plan{JobName: name, StartedAt: time.Unix(1_800_000_000, 0).UTC(), Metrics: []string{"mean"}, Trials: result.KeysOf(key)}
	trial := result.Trial{Key: key, Reward: new(1.0)}
	if err := os.MkdirAll(filepath.Join(dir, key.Dir()), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(
		result.WriteJSON(filepath.Join(dir, result.PlanFile), plan),
		result.WriteFile(filepath.Join(dir, result.ConfigFile), []byte("{}\n")),
		result.WriteJSON(filepath.Join(dir, key.Dir(), result.ResultFile), trial),
		result.WriteJSON(filepath.Join(dir, result.ResultFile), result.Summarize(plan, []result.Trial{trial})),
	); err != nil {
		t.Fatal(err)
	}
	return key
}

func libraryOf(t *testing.T, path string) *Library {
	t.Helper()
	l, err := OpenLibrary(&host.Host{Now: time.Now, Variables: host.Variables{Getenv: func(string) (string, bool) { return "", false }}}, path, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// A library contains the jobs that rollout ls lists, and opens no others.
func TestLibraryHasTheJobsOfADirectory(t *testing.T) {
	top := t.TempDir()
	storedJob(t, filepath.Join(top, "jobs", "one"), "nightly")
	storedJob(t, filepath.Join(top, "outside"), "outside")
	if err := os.Symlink("../outside", filepath.Join(top, "jobs", "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(top, "jobs", "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	l := libraryOf(t, filepath.Join(top, "jobs"))
	jobs, err := l.Jobs(t.Context())
	if err != nil || len(jobs) == 0 || jobs[0].Name != "one" || jobs[0].JobName != "nightly" || jobs[0].State != "done" || jobs[0].Completed != 1 {
		t.Fatalf("the jobs are %+v, %v", jobs, err)
	}
	for _, name := range []string{"link", "nothing", "..", "../outside", ".", "", "one/", "/etc"} {
		if job, err := l.Open(t.Context(), name); !errors.Is(err, fs.ErrNotExist) {
			_ = job.Close()
			t.Errorf("%q was opened: %v", name, err)
		}
	}
	job, err := l.Open(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	defer job.Close()
	in, err := job.Input(t.Context())
	if err != nil || in.Job.PassRate != 1 || len(in.Trials) != 1 || job.Running {
		t.Errorf("the job is %+v, %v", in.Job, err)
	}
	if _, err := fs.ReadFile(job.Files, "../../outside/plan.json"); err == nil {
		t.Error("a file outside of the job was read")
	}
}

// The numbers of a job are read again only when its files change.
func TestListedJobsAreKeptUntilTheyChange(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "one")
	storedJob(t, dir, "nightly")
	l := libraryOf(t, filepath.Dir(dir))
	first, err := l.Jobs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if kept := l.kept.jobs[dir]; kept.stamp == "" || kept.job.CompletedTrials != 1 {
		t.Fatalf("nothing is kept: %+v", kept)
	}
	if err := result.WriteFile(filepath.Join(dir, result.ResultFile), []byte("torn")); err != nil {
		t.Fatal(err)
	}
	again, err := l.Jobs(t.Context())
	if err != nil || first[0].State != "done" || again[0].State != "unreadable" {
		t.Errorf("the job is %+v, then %+v, %v", first, again, err)
	}
}

// A directory may be a job itself.
func TestLibraryOfOneJob(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "one")
	storedJob(t, dir, "nightly")
	l := libraryOf(t, dir)
	jobs, err := l.Jobs(t.Context())
	if err != nil || len(jobs) != 1 || jobs[0].Name != "one" || l.Single() != "one" || jobs[0].State != "done" {
		t.Fatalf("the jobs are %+v, %v", jobs, err)
	}
	if _, err := l.Open(t.Context(), "two"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another job was opened: %v", err)
	}
}

// The first page does not wait for all jobs: the others are read in the background, for the next
// page.
func TestFirstPageDoesNotWaitForAllJobs(t *testing.T) {
	top := t.TempDir()
	for _, name := range []string{"one", "two", "three"} {
		storedJob(t, filepath.Join(top, name), name)
	}
	l := libraryOf(t, top)
	l.patience = time.Nanosecond
	first, err := l.Jobs(t.Context())
	if err != nil || len(first) != 3 {
		t.Fatalf("the jobs are %+v, %v", first, err)
	}
	for _, job := range first {
		if job.State != page.Unread || job.Started.IsZero() {
			t.Errorf("the job is %+v", job)
		}
	}
	l.readers.Wait()
	second, err := l.Jobs(t.Context())
	if err != nil || len(second) != 3 {
		t.Fatalf("the jobs are %+v, %v", second, err)
	}
	for _, job := range second {
		if job.State != string(JobDone) || job.Completed != 1 || job.Point == nil || job.Point.Agents[0].Attempts != 1 {
			t.Errorf("the job is %+v", job)
		}
	}
}

func TestExportedSiteHasAPageForEachTrial(t *testing.T) {
	top := t.TempDir()
	key := storedJob(t, filepath.Join(top, "jobs", "one"), "nightly")
	site := filepath.Join(top, "site")
	h := &host.Host{Now: time.Now, Variables: host.Variables{Getenv: func(string) (string, bool) { return "", false }}}
	done, err := ExportSite(t.Context(), h, SiteRequest{Path: filepath.Join(top, "jobs"), To: site})
	if err != nil || done.Jobs != 1 || done.Trials != 1 {
		t.Fatalf("%+v, %v", done, err)
	}
	for _, file := range []string{"index.html", "job/one/index.html", "job/one/t/" + key.Dir() + "/index.html"} {
		if _, err := os.Stat(filepath.Join(site, file)); err != nil {
			t.Error(err)
		}
	}
	// A job that cannot be read does not affect the pages of the others.
	storedJob(t, filepath.Join(top, "jobs", "torn"), "torn")
	if err := os.WriteFile(filepath.Join(top, "jobs", "torn", result.PlanFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	done, err = ExportSite(t.Context(), h, SiteRequest{Path: filepath.Join(top, "jobs"), To: site})
	if err != nil || done.Jobs != 1 || done.Unreadable != 1 {
		t.Errorf("with a torn job: %+v, %v", done, err)
	}
	index, err := os.ReadFile(filepath.Join(site, "index.html"))
	if err != nil || !strings.Contains(string(index), "job/one/") || strings.Contains(string(index), "job/torn/") || !strings.Contains(string(index), "torn") {
		t.Errorf("the index is %s, %v", index, err)
	}
	if _, err := ExportSite(t.Context(), h, SiteRequest{Path: site, To: filepath.Join(top, "jobs")}); !errors.As(err, new(*host.UsageError)) {
		t.Errorf("the error is %v", err)
	}
}
