package github

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/forge/comments"
	"github.com/org/rollout-action/internal/test/githubtest"
)

const workflowCI = "ci.yml"

// history builds main with commits 1 to 6, and feature with 7, which branched off at 4:
//
//	1 - 2 - 3 - 4 - 5 - 6   main
//	             \
//	              7         feature
func history(t *testing.T) (*githubtest.Server, *Client) {
	t.Helper()
	s, c, _ := fixture(t)
	s.AddCommit(repo, sha(1))
	for n := 2; n <= 6; n++ {
		s.AddCommit(repo, sha(n), sha(n-1))
	}
	s.AddCommit(repo, sha(7), sha(4))
	s.SetBranch(repo, "main", sha(6))
	s.SetBranch(repo, "feature", sha(7))
	s.AddWorkflow(repo, workflowCI)
	return s, c
}

// ran adds a run on main for commit n, with a result.
func ran(t *testing.T, s *githubtest.Server, n int, change ...func(*githubtest.Run, *githubtest.Artifact)) int64 {
	t.Helper()
	run := githubtest.Run{WorkflowFile: workflowCI, Branch: "main", SHA: sha(n)}
	artifact := githubtest.Artifact{Name: "rollout-result", Files: map[string]string{"result.json": contents(n)}}
	for _, f := range change {
		f(&run, &artifact)
	}
	id := s.AddRun(repo, run)
	if _, err := s.AddArtifact(repo, id, artifact); err != nil {
		t.Fatal(err)
	}
	return id
}

// contents returns the result of commit n.
func contents(n int) string { return fmt.Sprintf(`{"job_name":"of commit %d"}`, n) }

func query() Query {
	return Query{Repo: repo, WorkflowFile: workflowCI, Branch: "main", Commit: sha(7), Artifact: "rollout-result"}
}

// found calls FindBaseline and checks that the file is that of commit n.
func found(t *testing.T, c *Client, q Query, n int) Found {
	t.Helper()
	dir := t.TempDir()
	f, err := c.FindBaseline(t.Context(), q, dir)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(f.Path)
	if err != nil || string(got) != contents(n) || f.Commit != sha(n) {
		t.Errorf("found %+v with %q, %v, want commit %d", f, got, err, n)
	}
	if names, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(names) != 1 {
		t.Errorf("the directory contains %q, %v", names, err)
	}
	if names, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(names) != 0 {
		t.Errorf("the directory still contains %q, %v", names, err)
	}
	return f
}

// none calls FindBaseline and checks that it finds nothing, for the reason want.
func none(t *testing.T, c *Client, q Query, want string) {
	t.Helper()
	f, err := c.FindBaseline(t.Context(), q, t.TempDir())
	if !errors.Is(err, ErrNoBaseline) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %+v, %v, want no baseline because of %q", f, err, want)
	}
}

func TestRunOfTheMergeBaseIsTheBaseline(t *testing.T) {
	s, c := history(t)
	for n := 1; n <= 6; n++ {
		ran(t, s, n)
	}
	f := found(t, c, query(), 4)
	if f.Behind != 0 || f.Side != MergeBase || f.Base != sha(4) {
		t.Errorf("found %+v", f)
	}
	if want := fmt.Sprintf("main at %s (the merge base; run %d)", sha(4)[:7], f.RunID); f.String() != want {
		t.Errorf("String() = %q, want %q", f, want)
	}
	if want := fmt.Sprintf("https://github.com/acme/widgets/actions/runs/%d", f.RunID); f.RunURL != want {
		t.Errorf("RunURL = %q, want %q", f.RunURL, want)
	}
	if got := count(s, http.MethodGet); got != 5 { // compare, runs, artifacts, zip, storage
		t.Errorf("%d requests: %q", got, s.Seen())
	}
}

func TestRunOfTheNearestAncestorIsTheBaseline(t *testing.T) {
	s, c := history(t)
	ran(t, s, 1)
	ran(t, s, 2)
	ran(t, s, 5) // after the merge base
	f := found(t, c, query(), 2)
	if f.Behind != 2 || !strings.Contains(f.String(), "(2 commits before the merge base, "+sha(4)[:7]+"; run ") {
		t.Errorf("found %+v, String() = %q", f, f)
	}
	ran(t, s, 3)
	if f := found(t, c, query(), 3); !strings.Contains(f.String(), "(1 commit before the merge base, 4000000; run ") {
		t.Errorf("String() = %q", f)
	}
}

// A run of main that lost a shard must not hide the complete one before it.
func TestCompleteResultIsPreferredToANearerIncompleteOne(t *testing.T) {
	lacking := func(content string) func(*githubtest.Run, *githubtest.Artifact) {
		return func(_ *githubtest.Run, a *githubtest.Artifact) { a.Files = map[string]string{"result.json": content} }
	}
	skipped, shard := `{"job_name":"torn","total_trials":10,"skipped_trials":4,"agents":{}}`, `{"job_name":"part","shard":{"index":1,"total":2},"agents":{}}`
	s, c := history(t)
	nearest := ran(t, s, 4, lacking(skipped))
	f, err := c.FindBaseline(t.Context(), query(), t.TempDir())
	if got, _ := os.ReadFile(f.Path); err != nil || string(got) != skipped || f.Newer != 0 || f.RunID != nearest {
		t.Errorf("alone, the incomplete one is found: got %+v with %q, %v", f, got, err)
	}
	ran(t, s, 3, lacking(shard))
	f, err = c.FindBaseline(t.Context(), query(), t.TempDir())
	if got, _ := os.ReadFile(f.Path); err != nil || string(got) != skipped || f.RunID != nearest {
		t.Errorf("of incomplete ones, the nearest is found: got %+v with %q, %v", f, got, err)
	}
	ran(t, s, 2)
	want := fmt.Sprintf("; the newer run %d at %s is incomplete)", nearest, sha(4)[:7])
	if f := found(t, c, query(), 2); f.Behind != 2 || !strings.HasSuffix(f.String(), want) {
		t.Errorf("found %s; want %q", f, want)
	}
	ran(t, s, 4) // run again
	if f := found(t, c, query(), 4); f.Behind != 0 || f.Newer != 0 {
		t.Errorf("found %+v", f)
	}
}

func TestFirstParentsComeFirst(t *testing.T) {
	s, c := history(t)
	// 8 merges 3 and a side branch 9-10, and becomes the merge base of 11.
	s.AddCommit(repo, sha(9), sha(2))
	s.AddCommit(repo, sha(10), sha(9))
	s.AddCommit(repo, sha(8), sha(3), sha(10))
	s.AddCommit(repo, sha(11), sha(8))
	s.SetBranch(repo, "main", sha(8))
	ran(t, s, 10)
	ran(t, s, 3)
	q := query()
	q.Commit = sha(11)
	if f := found(t, c, q, 3); f.Behind != 1 {
		t.Errorf("found %+v", f)
	}
}

func TestNewestRunOfACommitWins(t *testing.T) {
	s, c := history(t)
	ran(t, s, 4, func(_ *githubtest.Run, a *githubtest.Artifact) { a.Files["result.json"] = "{}" })
	nightly := ran(t, s, 4, func(r *githubtest.Run, _ *githubtest.Artifact) { r.Event = "schedule" })
	if f := found(t, c, query(), 4); f.RunID != nightly {
		t.Errorf("found %+v, want run %d", f, nightly)
	}
}

func TestAfterAPushTheRunBeforeIsTheBaseline(t *testing.T) {
	s, c := history(t)
	ran(t, s, 5)
	own := ran(t, s, 6)
	q := query()
	q.Commit, q.Exclude = sha(6), own
	if f := found(t, c, q, 5); f.Side != Itself || !strings.Contains(f.String(), "(1 commit before the evaluated commit, which the branch has, "+sha(6)[:7]+"; run ") {
		t.Errorf("found %+v, String() = %q", f, f)
	}
	q.Commit = "" // the latest of the branch
	found(t, c, q, 5)
	q.Exclude = 0
	if f := found(t, c, q, 6); !strings.Contains(f.String(), "(an earlier run of this commit; run ") {
		t.Errorf("String() = %q", f)
	}
}

func TestUnusableRuns(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*githubtest.Run, *githubtest.Artifact)
	}{
		{"a pull request", func(r *githubtest.Run, _ *githubtest.Artifact) { r.Event = "pull_request" }},
		{"a fork's branch of the same name", func(r *githubtest.Run, _ *githubtest.Artifact) {
			r.Event, r.HeadRepo = "pull_request", "mallory/widgets"
		}},
		{"a fork's push", func(r *githubtest.Run, _ *githubtest.Artifact) { r.HeadRepo = "mallory/widgets" }},
		{"pull_request_target", func(r *githubtest.Run, _ *githubtest.Artifact) { r.Event = "pull_request_target" }},
		{"workflow_run", func(r *githubtest.Run, _ *githubtest.Artifact) { r.Event = "workflow_run" }},
		{"another branch", func(r *githubtest.Run, _ *githubtest.Artifact) { r.Branch = "feature" }},
		{"another workflow", func(r *githubtest.Run, _ *githubtest.Artifact) { r.WorkflowFile = "other.yml" }},
		{"still running", func(r *githubtest.Run, _ *githubtest.Artifact) { r.Status = "in_progress" }},
		{"cancelled", func(r *githubtest.Run, _ *githubtest.Artifact) { r.Conclusion = "cancelled" }},
		{"another artifact", func(_ *githubtest.Run, a *githubtest.Artifact) { a.Name = "rollout-result2" }},
		{"expired artifact", func(_ *githubtest.Run, a *githubtest.Artifact) { a.Expired = true }},
		{"artifact that expires during the search", func(_ *githubtest.Run, a *githubtest.Artifact) { a.Gone = true }},
		{"artifact that is too large", func(_ *githubtest.Run, a *githubtest.Artifact) { a.Size = 65 << 20 }},
		{"artifact that is no zip", func(_ *githubtest.Run, a *githubtest.Artifact) { a.Zip = []byte("no zip") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, c := history(t)
			ran(t, s, 2)
			for _, n := range []int{3, 4} {
				ran(t, s, n, tc.change)
			}
			found(t, c, query(), 2)
		})
	}
	t.Run("a failed run is usable", func(t *testing.T) {
		s, c := history(t)
		ran(t, s, 2)
		ran(t, s, 4, func(r *githubtest.Run, _ *githubtest.Artifact) { r.Conclusion = "failure" })
		found(t, c, query(), 4)
	})
}

// The listing of runs by branch includes runs of forks' branches of the same name.
func TestRunsOfForksDoNotHideTheBaseline(t *testing.T) {
	s, c := history(t)
	ran(t, s, 2)
	for range 700 {
		s.AddRun(repo, githubtest.Run{
			WorkflowFile: workflowCI, Branch: "main", SHA: sha(12), Event: "pull_request", HeadRepo: "mallory/widgets",
		})
	}
	found(t, c, query(), 2)
}

func TestArtifactSearchIsBounded(t *testing.T) {
	s, c := history(t)
	for range maxCandidates + 10 {
		s.AddRun(repo, githubtest.Run{WorkflowFile: workflowCI, Branch: "main", SHA: sha(4)})
	}
	none(t, c, query(), "has an artifact")
	asked := 0
	for _, r := range s.Requests() {
		if strings.HasSuffix(r.Path, "/artifacts") {
			asked++
		}
	}
	if asked != maxCandidates {
		t.Errorf("%d runs were checked, want %d", asked, maxCandidates)
	}
}

func TestBaselineOnALaterPage(t *testing.T) {
	s, c := history(t)
	id := ran(t, s, 1)
	parent := sha(1)
	for n := range 350 { // of commits; the merge base is the last of them
		next := fmt.Sprintf("%040x", 0xabc000+n)
		s.AddCommit(repo, next, parent)
		parent = next
	}
	for range 150 { // of runs
		s.AddRun(repo, githubtest.Run{WorkflowFile: workflowCI, Branch: "main", SHA: sha(6)})
	}
	s.AddCommit(repo, sha(13), parent)
	s.SetBranch(repo, "main", parent)
	q := query()
	q.Commit = sha(13)
	if f := found(t, c, q, 1); f.RunID != id || f.Behind != 350 {
		t.Errorf("found %+v", f)
	}
}

func TestReasonsForNoBaseline(t *testing.T) {
	for _, tc := range []struct {
		name    string
		prepare func(t *testing.T, s *githubtest.Server, q *Query)
		want    string
	}{
		{"nothing ran", func(*testing.T, *githubtest.Server, *Query) {}, "ci.yml has not completed a run on main yet"},
		{"the workflow is new", func(_ *testing.T, _ *githubtest.Server, q *Query) { q.WorkflowFile = "new.yml" },
			"GitHub does not show the runs of new.yml"},
		{"the workflow is unknown", func(_ *testing.T, _ *githubtest.Server, q *Query) { q.WorkflowFile = "" }, "which workflow"},
		{"the branch is unknown", func(_ *testing.T, _ *githubtest.Server, q *Query) { q.Branch = "" }, "which branch"},
		{"no name of an artifact", func(_ *testing.T, _ *githubtest.Server, q *Query) { q.Artifact = "" }, "the name of the baseline's artifact is missing"},
		{"there is no such branch", func(_ *testing.T, _ *githubtest.Server, q *Query) { q.Branch = "gone" }, "the merge base of gone and 7000000"},
		{"there is no such commit", func(_ *testing.T, _ *githubtest.Server, q *Query) { q.Commit = sha(15) }, "the merge base of main and f000000"},
		{"there is no such branch to take the latest of", func(_ *testing.T, _ *githubtest.Server, q *Query) {
			q.Branch, q.Commit = "gone", ""
		}, "the commits of gone"},
		{"only later commits ran", func(t *testing.T, s *githubtest.Server, _ *Query) { ran(t, s, 5); ran(t, s, 6) },
			"merge main into this branch, or rebase it"},
		{"the runs have no artifact", func(_ *testing.T, s *githubtest.Server, _ *Query) {
			s.AddRun(repo, githubtest.Run{WorkflowFile: workflowCI, Branch: "main", SHA: sha(4)})
			s.AddRun(repo, githubtest.Run{WorkflowFile: workflowCI, Branch: "main", SHA: sha(3)})
		}, `no run of ci.yml on main up to the merge base, 4000000 has an artifact "rollout-result"`},
		{"the artifacts have expired", func(t *testing.T, s *githubtest.Server, _ *Query) {
			ran(t, s, 4, func(_ *githubtest.Run, a *githubtest.Artifact) { a.Expired = true })
			ran(t, s, 3, func(_ *githubtest.Run, a *githubtest.Artifact) { a.Gone = true })
		}, "have expired: run the workflow on main again"},
		{"the artifact is broken", func(t *testing.T, s *githubtest.Server, _ *Query) {
			ran(t, s, 4, func(_ *githubtest.Run, a *githubtest.Artifact) { a.Files = map[string]string{"other.json": "{}"} })
		}, "there is no result.json in it"},
		{"the token may not read runs", func(t *testing.T, s *githubtest.Server, _ *Query) {
			ran(t, s, 4)
			a := githubtest.Workflow()
			a.Actions = githubtest.None
			s.AddToken(githubtest.WriteToken, a)
		}, "permissions contents: read and actions: read"},
		{"the token may not read artifacts of a public repository", func(t *testing.T, s *githubtest.Server, _ *Query) {
			ran(t, s, 4)
			s.Publish(repo)
			a := githubtest.Workflow()
			a.Actions = githubtest.None
			s.AddToken(githubtest.WriteToken, a)
		}, "actions: read"},
		{"the token is not valid", func(t *testing.T, s *githubtest.Server, _ *Query) {
			s.Before(func(w http.ResponseWriter, _ *http.Request) bool {
				w.WriteHeader(http.StatusUnauthorized)
				return true
			})
		}, "GITHUB_TOKEN"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, c := history(t)
			q := query()
			tc.prepare(t, s, &q)
			none(t, c, q, tc.want)
		})
	}
}

func TestHostileBranchNameInTheReason(t *testing.T) {
	_, c := history(t)
	q := query()
	q.Branch = "x\u202e\n##[error]y"
	_, err := c.FindBaseline(t.Context(), q, t.TempDir())
	if err == nil || strings.ContainsAny(err.Error(), "\n\u202e") || strings.Contains(err.Error(), "##[") {
		t.Errorf("the reason is %q", err)
	}
}

func TestHostileBranchNameInTheBaseline(t *testing.T) {
	f := Found{Branch: "x\u202e\n##[error]y", Commit: sha(1), RunID: 1, Side: MergeBase}
	if got := f.String(); got != "x⏎## [error]y at 1000000 (the merge base; run 1)" {
		t.Errorf("String() = %q", got)
	}
}

// zeros is an endless file.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestCopyBoundedStopsAtTheLimit(t *testing.T) {
	var b bytes.Buffer
	if err := copyBounded(&b, io.LimitReader(zeros{}, 1<<20), 1000); !errors.Is(err, errBadArtifact) || b.Len() > 1001 {
		t.Errorf("%d bytes were written, %v", b.Len(), err)
	}
	b.Reset()
	if err := copyBounded(&b, io.LimitReader(zeros{}, 1000), 1000); err != nil || b.Len() != 1000 {
		t.Errorf("%d bytes were written, %v", b.Len(), err)
	}
	if err := copyBounded(brokenWriter{}, zeros{}, 1000); !errors.Is(err, io.ErrClosedPipe) || errors.Is(err, errBadArtifact) {
		t.Errorf("the error is %v", err)
	}
}

func TestTokenIsOnlySentToTheAPI(t *testing.T) {
	s, c := history(t)
	ran(t, s, 4)
	found(t, c, query(), 4)
	storage := 0
	for _, r := range s.Requests() {
		auth := r.Header.Get("Authorization")
		if r.Storage {
			storage++
		}
		if r.Storage == (auth == "Bearer "+githubtest.WriteToken) {
			t.Errorf("%s %s had the token %q", r.Method, r.Path, auth)
		}
		if got := r.Header.Get("User-Agent"); got != userAgent {
			t.Errorf("%s %s had the user agent %q", r.Method, r.Path, got)
		}
	}
	if storage != 1 {
		t.Errorf("%d requests to the storage", storage)
	}
}

func TestStorageFailuresAreRetried(t *testing.T) {
	s, c := history(t)
	ran(t, s, 4)
	s.FailStorage(maxTries - 1)
	found(t, c, query(), 4)
	s.FailStorage(maxTries)
	_, err := c.FindBaseline(t.Context(), query(), t.TempDir())
	if err == nil || errors.Is(err, ErrNoBaseline) || strings.Contains(err.Error(), "sig=") || strings.Contains(err.Error(), "signature") {
		t.Errorf("the error is %v", err)
	}
}

// The signed URL of an artifact grants access to it and must not appear in errors.
func TestStorageURLIsNotInErrors(t *testing.T) {
	s, c := history(t)
	ran(t, s, 4)
	s.StorageURL = "http://127.0.0.1:1"
	_, err := c.FindBaseline(t.Context(), query(), t.TempDir())
	if err == nil || errors.Is(err, ErrNoBaseline) || strings.Contains(err.Error(), "signature") {
		t.Errorf("the error is %v", err)
	}
}

func TestBaselineFromAnEnterpriseServer(t *testing.T) {
	s, _ := history(t)
	ran(t, s, 4)
	clock := newClock()
	c, err := NewWith(githubtest.WriteToken, s.URL+"/api/v3/", Options{Now: clock.Now, Sleep: clock.Sleep})
	if err != nil {
		t.Fatal(err)
	}
	found(t, c, query(), 4)
	upsertOK(t, c, comment(1, "text"), comments.Created)
	only(t, s)
	for _, r := range s.Requests() {
		if !r.Storage && !strings.HasPrefix(r.Path, "/api/v3/repos/") && r.Path != "/api/graphql" {
			t.Errorf("asked for %s", r.Path)
		}
	}
}

// packed returns a zip with these entries, in this order; names may repeat.
func packed(t *testing.T, entries ...member) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range entries {
		f, err := w.CreateHeader(&e.FileHeader)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(e.content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// member is a file in a zip.
type member struct {
	zip.FileHeader
	content string
}

func entry(name, content string) member {
	return member{zip.FileHeader{Name: name, Method: zip.Deflate}, content}
}

func link(name, target string) member {
	h := entry(name, target)
	h.SetMode(0o777 | os.ModeSymlink)
	return h
}

func TestResultInAnArtifact(t *testing.T) {
	for _, tc := range []struct {
		name    string
		entries []member
		want    string // the content, or
		problem string
	}{
		{"the file alone", []member{entry("result.json", "A")}, "A", ""},
		{"in a directory", []member{entry("job/result.json", "A")}, "A", ""},
		{"next to a trial's", []member{entry("job/agent/data/task__1/result.json", "B"), entry("job/result.json", "A")}, "A", ""},
		{"only a trial's", []member{entry("job/agent/data/task__1/result.json", "B")}, "", "too deep"},
		{"two jobs", []member{entry("a/result.json", "A"), entry("b/result.json", "B")}, "", "there are 2 files"},
		{"two of one name", []member{entry("result.json", "A"), entry("result.json", "B")}, "", "there are 2 files"},
		{"names outside of the directory", []member{
			entry("../result.json", "B"), entry("/result.json", "B"), entry("x/../../result.json", "B"), entry(`..\result.json`, "B"),
			entry("./result.json", "B"),
		}, "", "no result.json"},
		{"names outside of the directory, and the file", []member{entry("../result.json", "B"), entry("result.json", "A")}, "A", ""},
		{"a link", []member{link("result.json", "/etc/passwd")}, "", "no result.json"},
		{"a directory", []member{entry("result.json/", "")}, "", "no result.json"},
		{"nothing", nil, "", "no result.json"},
		{"a zip bomb", []member{entry("result.json", strings.Repeat("0", 32<<10+1))}, "", "larger than"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, c := history(t)
			c.limits = limits{zip: 1 << 20, result: 32 << 10}
			ran(t, s, 4, func(_ *githubtest.Run, a *githubtest.Artifact) { a.Zip = packed(t, tc.entries...) })
			dir := filepath.Join(t.TempDir(), "deep", "dir")
			f, err := c.FindBaseline(t.Context(), query(), dir)
			if tc.problem != "" {
				if !errors.Is(err, ErrNoBaseline) || !strings.Contains(err.Error(), tc.problem) {
					t.Errorf("got %+v, %v, want %q", f, err, tc.problem)
				}
				if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
					t.Errorf("the directory still contains %v, %v", names, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(filepath.Join(dir, "result.json")); err != nil || string(got) != tc.want || f.Path != filepath.Join(dir, "result.json") {
				t.Errorf("%s is %q, %v, want %q", f.Path, got, err, tc.want)
			}
		})
	}
}

func TestArtifactLargerThanItClaims(t *testing.T) {
	s, c := history(t)
	c.limits.zip = 500
	ran(t, s, 4, func(_ *githubtest.Run, a *githubtest.Artifact) {
		a.Zip, a.Size = bytes.Repeat([]byte("x"), 501), 10
	})
	none(t, c, query(), "it is larger than")
}

func TestTruncatedArtifactIsNoBaseline(t *testing.T) {
	s, c := history(t)
	whole := packed(t, entry("result.json", "A"))
	damaged := bytes.Replace(whole, []byte("PK\x03\x04"), []byte("PK\x03\x05"), 1)
	for _, data := range [][]byte{whole[:len(whole)-5], damaged, {}} {
		ran(t, s, 4, func(_ *githubtest.Run, a *githubtest.Artifact) { a.Zip = append([]byte{}, data...) })
	}
	none(t, c, query(), "no artifact")
}

// TestEarlierResultsAreThoseBeforeTheBaseline: further results are those of the same commit and of
// earlier ones, the nearest first, never of later ones.
func TestEarlierResultsAreThoseBeforeTheBaseline(t *testing.T) {
	s, c := history(t)
	for _, n := range []int{1, 3, 4, 4, 6} {
		ran(t, s, n)
	}
	ran(t, s, 2, func(_ *githubtest.Run, a *githubtest.Artifact) { a.Files = map[string]string{"other.txt": ""} })
	q := query()
	base := found(t, c, q, 4)
	for most, want := range map[int]string{9: "[4 3 1]", 2: "[4 3]"} {
		var got []string
		dir := t.TempDir()
		err := c.FindEarlier(t.Context(), q, base, dir, func(f Found) bool {
			data, err := os.ReadFile(f.Path)
			if err != nil || f.RunID == base.RunID {
				t.Errorf("took %+v, %v", f, err)
			}
			for n := 1; n <= 7; n++ {
				if string(data) == contents(n) && f.Commit == sha(n) {
					got = append(got, fmt.Sprint(n))
				}
			}
			return len(got) < most
		})
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("took the results of commits %v, %v, want %s", got, err, want)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
			t.Errorf("%d directories are left, %v", len(left), err)
		}
	}
}

// A look names its run, so that a newer one does not take its place in later looks.
func TestANamedRunIsTheBaseline(t *testing.T) {
	s, c := history(t)
	first := ran(t, s, 3)
	newer := ran(t, s, 4)
	if f := found(t, c, query(), 4); f.RunID != newer {
		t.Fatalf("found %+v", f)
	}
	q := query()
	q.Run = first
	f := found(t, c, q, 3)
	if want := fmt.Sprintf("main at %s (the run that was named; run %d)", sha(3)[:7], first); f.RunID != first || f.String() != want {
		t.Errorf("found %+v: %s", f, f)
	}

	// It has to be a run whose results may be a baseline, and still have them.
	q.Run = ran(t, s, 5, func(r *githubtest.Run, _ *githubtest.Artifact) { r.Event = "pull_request" })
	none(t, c, q, "is no completed run of main")
	q.Run = ran(t, s, 5, func(r *githubtest.Run, _ *githubtest.Artifact) { r.Branch = "other" })
	none(t, c, q, "is no completed run of main")
	q.Run = ran(t, s, 5, func(_ *githubtest.Run, a *githubtest.Artifact) { a.Expired = true })
	none(t, c, q, "has expired")
	q.Run = ran(t, s, 5, func(_ *githubtest.Run, a *githubtest.Artifact) { a.Name = "other" })
	none(t, c, q, "has no artifact")
	q.Run = 987654321
	none(t, c, q, "does not exist")
}
