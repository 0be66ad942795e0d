package library

import (
	"archive/zip"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/output/viewer"
)

// zipped writes an archive of a directory, and of further files, each with a single name.
func zipped(t *testing.T, file, dir string, further ...string) {
	t.Helper()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	err = z.AddFS(os.DirFS(dir))
	for _, name := range further {
		w, createErr := z.Create(name)
		if createErr == nil {
			_, createErr = w.Write([]byte("further"))
		}
		err = errors.Join(err, createErr)
	}
	if err := errors.Join(err, z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// Artifacts are shown as downloaded: an archive, or a directory of archives and unpacked artifacts.
func TestArtifactsAreShownAsTheyAre(t *testing.T) {
	top := t.TempDir()
	made, jobs := filepath.Join(top, "made"), filepath.Join(top, "jobs")
	key := storedJob(t, filepath.Join(made, "nightly"), "nightly")
	log := filepath.Join(made, "nightly", key.Dir(), result.VerifierDir, result.StdoutFile)
	if err := errors.Join(os.MkdirAll(filepath.Dir(log), 0o755), os.WriteFile(log, []byte("what the verifier said\n"), 0o644), os.MkdirAll(jobs, 0o755)); err != nil {
		t.Fatal(err)
	}
	zipped(t, filepath.Join(jobs, "one.zip"), made)
	judged := filepath.Join(top, "judged", "nightly")
	storedJob(t, judged, "nightly")
	digest, err := result.DigestOfResult(judged)
	if err != nil {
		t.Fatal(err)
	}
	verdict := reporting.StoredVerdict{ResultDigest: digest, JudgedAt: time.Now(), Incomplete: []string{"a shard was lost"}, Gate: gate.Verdict{Outcome: gate.Fail, Reason: "3 tasks broke"}}
	if err := result.WriteVerdict(judged, verdict); err != nil {
		t.Fatal(err)
	}
	zipped(t, filepath.Join(jobs, "judged.zip"), filepath.Dir(judged))
	zipped(t, filepath.Join(jobs, "root.zip"), filepath.Join(made, "nightly"))
	storedJob(t, filepath.Join(made, "second"), "second")
	zipped(t, filepath.Join(jobs, "two.zip"), made)
	zipped(t, filepath.Join(jobs, "hostile.zip"), made, "../../outside")
	storedJob(t, filepath.Join(jobs, "rollout-jobs", "unpacked"), "unpacked")
	storedJob(t, filepath.Join(jobs, "plain"), "plain")

	l := libraryOf(t, jobs)
	l.patience = 0
	listed, err := l.Jobs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	states := map[string]string{}
	for _, job := range listed {
		states[job.Name] = job.State
	}
	server := viewer.New(l, "Jobs", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1})
	get := func(below string) (int, string) {
		r := httptest.NewRequest(http.MethodGet, server.URL("")+below, http.NoBody)
		w := httptest.NewRecorder()
		server.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	for name, job := range map[string]string{"one.zip": "nightly", "root.zip": "nightly", "two.zip~nightly": "nightly", "two.zip~second": "second", "rollout-jobs~unpacked": "unpacked", "plain": "plain"} {
		if states[name] != string(JobDone) {
			t.Errorf("%s is %q", name, states[name])
		}
		for range 2 {
			code, text := get("job/" + url.PathEscape(name) + "/")
			if code != http.StatusOK || !strings.Contains(text, "1 of 1 task passed") || !strings.Contains(text, ">"+job+"<") || strings.Contains(text, l.packed.temp) {
				t.Errorf("the page of %s is %d", name, code)
			}
		}
		if code, _ := get("job/" + url.PathEscape(name) + "/t/" + key.Dir() + "/"); code != http.StatusOK {
			t.Errorf("the page of the trial of %s is %d", name, code)
		}
		if job != "nightly" {
			continue
		}
		for _, kind := range []string{"log/", "raw/"} {
			if code, text := get(kind + url.PathEscape(name) + "/" + key.Dir() + "/logs/verifier/stdout.txt"); code != http.StatusOK || !strings.Contains(text, "what the verifier said") {
				t.Errorf("%s of %s is %d", kind, name, code)
			}
		}
	}
	if _, text := get("job/judged.zip/"); !strings.Contains(text, "Gate: 3 tasks broke") || !strings.Contains(text, "a shard was lost") {
		t.Errorf("the verdict in an archive is not shown:\n%s", text)
	}
	if states["hostile.zip"] != string(JobUnreadable) || len(states) != 8 {
		t.Errorf("the jobs are %v", states)
	}
	for _, name := range []string{"two.zip", "two.zip~other", "hostile.zip", "rollout-jobs", "rollout-jobs~..", "rollout-jobs~../plain", "one.zip~..", "~plain"} {
		if job, err := l.Open(t.Context(), name); err == nil {
			_ = job.Close()
			t.Errorf("%s was opened", name)
		}
	}
	temp := l.packed.temp
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(temp); !errors.Is(err, fs.ErrNotExist) || temp == "" {
		t.Errorf("%s is left: %v", temp, err)
	}
}

func TestLibraryOfAnArchive(t *testing.T) {
	top := t.TempDir()
	storedJob(t, filepath.Join(top, "made", "nightly"), "nightly")
	file := filepath.Join(top, "rollout-jobs.zip")
	zipped(t, file, filepath.Join(top, "made"))
	l := libraryOf(t, file)
	jobs, err := l.Jobs(t.Context())
	if err != nil || len(jobs) != 1 || jobs[0].Name != l.Single() || jobs[0].JobName != "nightly" || jobs[0].Completed != 1 {
		t.Fatalf("the jobs are %+v, %v", jobs, err)
	}
	job, err := l.Open(t.Context(), l.Single())
	if err != nil {
		t.Fatal(err)
	}
	defer job.Close()
	if in, err := job.Input(t.Context()); err != nil || len(in.Trials) != 1 {
		t.Errorf("the job is %+v, %v", in, err)
	}
	zipped(t, file, filepath.Join(top, "made"), "/etc/passwd")
	if _, err := OpenLibrary(l.h, file, false); !errors.As(err, new(*host.UsageError)) {
		t.Errorf("the error of a hostile archive is %v", err)
	}
}

// A job and its baseline are also compared inside an archive, with their attempts side by side.
func TestPairInAnArchiveIsCompared(t *testing.T) {
	top := t.TempDir()
	const commit = "1a2b3c4d5e6f7a8b9c0d1a2b3c4d5e6f7a8b9c0d"
	name := "nightly" + reporting.AgainstSuffix(commit)
	pair := func(dir, name string, paired result.Beside, reward float64) {
		key := storedJob(t, dir, name)
		plan, err := result.ReadPlan(dir)
		if err != nil {
			t.Fatal(err)
		}
		plan.Beside = &paired
		trial := result.Trial{Key: key, Reward: &reward}
		if err := errors.Join(
			result.WriteJSON(filepath.Join(dir, result.PlanFile), plan),
			result.WriteJSON(filepath.Join(dir, key.Dir(), result.ResultFile), trial),
			result.WriteFile(filepath.Join(dir, key.Dir(), result.ATIFFile), []byte(`{"steps": [{"source": "agent", "message": "said in `+name+`"}]}`)),
			result.WriteJSON(filepath.Join(dir, result.ResultFile), result.Summarize(plan, []result.Trial{trial})),
		); err != nil {
			t.Fatal(err)
		}
	}
	pair(filepath.Join(top, "made", "nightly"), "nightly", result.Beside{JobName: name, Commit: commit}, 0)
	pair(filepath.Join(top, "made", name), name, result.Beside{Baseline: true, JobName: "nightly", Commit: commit}, 1)
	file := filepath.Join(top, "pair.zip")
	zipped(t, file, filepath.Join(top, "made"))
	l := libraryOf(t, file)
	server := viewer.New(l, "Jobs", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1})
	key := result.Key{Agent: "a", Dataset: "d", Task: "t", Attempt: 1}
	paired := "Side by side with the baseline&#39;s attempt 1, reward 1"
	for path, want := range map[string]string{"": "broken", "t/" + key.Dir() + "/": paired} {
		w := httptest.NewRecorder()
		server.ServeHTTP(w, httptest.NewRequest(http.MethodGet, server.URL("pair.zip~nightly")+path, http.NoBody))
		if text := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(text, want) || strings.Contains(text, l.packed.temp) {
			t.Errorf("the page %q is %d, without %q or with where it was unpacked", path, w.Code, want)
		}
	}
	host := *l.h
	site := filepath.Join(top, "site")
	if done, err := ExportSite(t.Context(), &host, SiteRequest{Path: file, To: site}); err != nil || done.Jobs != 2 {
		t.Fatalf("%+v, %v", done, err)
	}
	text, err := os.ReadFile(filepath.Join(site, "job", "pair.zip~nightly", "t", key.Dir(), "index.html"))
	if err != nil || !strings.Contains(string(text), paired) || !strings.Contains(string(text), "said in "+name) {
		t.Errorf("the exported trial is not shown next to the baseline's: %v", err)
	}
}
