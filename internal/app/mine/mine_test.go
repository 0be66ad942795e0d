package mine_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/mine"
	"github.com/org/rollout-action/internal/core/config"
	mined "github.com/org/rollout-action/internal/run/mine"
	"github.com/org/rollout-action/internal/test/apptest"
	"github.com/org/rollout-action/internal/test/testenv"
)

func TestRunRefusesWhatItCannotMine(t *testing.T) {
	h, _ := apptest.New(t)
	for _, tc := range []struct {
		req  mine.Request
		want string
	}{
		{mine.Request{Repository: "nowhere", Out: "out"}, "nowhere: there is no such directory"},
		{mine.Request{Repository: "evals", Out: "out"}, "evals is in no git repository"},
	} {
		_, err := mine.Run(t.Context(), h, tc.req)
		apptest.Refused(t, err, tc.want)
	}
	if _, err := os.Lstat(filepath.Join(h.Dir, "out")); err == nil {
		t.Error("something was written")
	}
}

// The settings of the proof are checked before anything is written.
func TestWrongSettingsAreRefusedFirst(t *testing.T) {
	h := repository(t)
	req := mine.Request{Repository: ".", Out: "mined", Limit: 1}
	req.Job.Sets = []config.Override{{Path: "timeout_multipler", Literal: 2, Origin: "--set timeout_multipler=2"}}
	if _, err := mine.Run(t.Context(), h, req); err == nil || !strings.Contains(err.Error(), `unknown key "timeout_multipler"`) {
		t.Errorf("%v, want the unknown key", err)
	}
	if left, _ := filepath.Glob(filepath.Join(h.Dir, ".rollout-mine-*")); len(left) > 0 {
		t.Errorf("written: %q", left)
	}
}

// What a mining that was killed has written next to the dataset is removed by the next one.
func TestFilesOfKilledMiningsAreRemoved(t *testing.T) {
	h := repository(t)
	killed := filepath.Join(h.Dir, "evals", ".rollout-mine-1")
	if err := os.MkdirAll(filepath.Join(killed, "mined"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(killed, ".lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	req := mine.Request{Repository: ".", Out: filepath.Join("evals", "mined"), Limit: 1}
	req.Job.Overrides = []config.Override{{Path: "environment.type", Literal: "fake", Origin: "--env-type"}}
	found, err := mine.Run(t.Context(), h, req)
	if err != nil || len(found.Candidates) != 1 || found.Candidates[0].Reason != mined.Root {
		t.Errorf("%+v, %v; want one commit, without a parent", found, err)
	}
	if left, _ := filepath.Glob(filepath.Join(h.Dir, "evals", ".rollout-mine-*")); len(left) > 0 {
		t.Errorf("still there: %q", left)
	}
}

// A task with an error in its files, such as a script with Windows line ends, is left out before
// anything is built.
func TestFlawedTasksAreNotRun(t *testing.T) {
	h := repository(t)
	for name, text := range map[string]string{"lib.sh": "echo 1\n", "lib_test.sh": "bash lib.sh\r\n"} {
		if err := os.WriteFile(filepath.Join(h.Dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	commit(t, h, "Print a number, as the server wants it with each request")
	req := mine.Request{Repository: ".", Out: "mined", Limit: 1}
	req.Job.Overrides = []config.Override{{Path: "environment.type", Literal: "fake", Origin: "--env-type"}}
	found, err := mine.Run(t.Context(), h, req)
	if err != nil || len(found.Candidates) != 1 || found.Candidates[0].Reason != mined.Flawed || !strings.HasPrefix(found.Candidates[0].Detail, "crlf: the script has Windows line ends") {
		t.Errorf("%+v, %v; want one flawed commit", found.Candidates, err)
	}
	if jobs, _ := filepath.Glob(filepath.Join(h.Dir, "jobs", "*")); len(jobs) > 0 {
		t.Errorf("the task was run: %q", jobs)
	}
}

// With Refresh, only commits after the newest one that has a task in the dataset are looked at.
func TestRefreshLooksAtNewCommits(t *testing.T) {
	h := repository(t)
	req := mine.Request{Repository: ".", Out: "mined", Limit: 10, DryRun: true, Refresh: true}
	_, err := mine.Run(t.Context(), h, req)
	apptest.Refused(t, err, "--refresh: mined has no task of the newest 1 commit; mine without it")
	subjects := []string{"One", "Two", "Three"}
	for _, subject := range subjects {
		if err := os.WriteFile(filepath.Join(h.Dir, "file"), []byte(subject), 0o600); err != nil {
			t.Fatal(err)
		}
		commit(t, h, subject)
	}
	req.Refresh = false
	all, err := mine.Run(t.Context(), h, req)
	if err != nil || len(all.Candidates) != 4 || all.Candidates[2].Subject != "One" {
		t.Fatalf("%+v, %v; want four commits", all.Candidates, err)
	}
	if err := os.MkdirAll(filepath.Join(h.Dir, "mined", all.Candidates[2].Task), 0o755); err != nil {
		t.Fatal(err)
	}
	req.Refresh = true
	found, err := mine.Run(t.Context(), h, req)
	if err != nil || len(found.Candidates) != 2 || found.Candidates[0].Subject != "Three" || found.Candidates[1].Subject != "Two" {
		t.Errorf("%+v, %v; want the two commits after One", found.Candidates, err)
	}
}

// Tasks are not written through a link of the repository.
func TestLinksOnTheWayToTheDataset(t *testing.T) {
	h := repository(t)
	outside := t.TempDir()
	for _, name := range []string{"linked", filepath.Join("evals", "mined")} {
		if err := os.Symlink(outside, filepath.Join(h.Dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for out, link := range map[string]string{
		filepath.Join("linked", "mined"): "linked", filepath.Join("evals", "mined"): filepath.Join("evals", "mined"), filepath.Join(h.Dir, "linked", "a", "b"): "linked",
	} {
		req := mine.Request{Repository: ".", Out: out, Limit: 1}
		req.Job.Overrides = []config.Override{{Path: "environment.type", Literal: "fake", Origin: "--env-type"}}
		_, err := mine.Run(t.Context(), h, req)
		apptest.Refused(t, err, "--out "+out+": "+link+" is a symbolic link of the repository")
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("written: %v, %v", left, err)
	}
}

// repository returns a host whose directory is a repository with one commit.
func repository(t *testing.T) *host.Host {
	t.Helper()
	testenv.NeedGit(t)
	h, _ := apptest.New(t)
	git(t, h, "init", "--quiet")
	commit(t, h, "Begin")
	return h
}

// commit commits all files.
func commit(t *testing.T, h *host.Host, message string) {
	t.Helper()
	git(t, h, "add", ".")
	git(t, h, "-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "--quiet", "--message", message)
}

func git(t *testing.T, h *host.Host, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = h.Dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
}

// Commits that a machine could not run are an error, not commits that are unfit.
func TestCommitsThatCouldNotBeRunAreAnError(t *testing.T) {
	unfit := mined.Candidate{Reason: mined.NoNewTest}
	notRun := mined.Candidate{Reason: mined.NotKnown, Detail: "its registry cannot be reached"}
	for _, tc := range []struct {
		name     string
		commits  []mined.Candidate
		hasTasks bool
		notRun   string
	}{
		{"one unfit", []mined.Candidate{unfit}, false, ""},
		{"one with a task of an earlier run", []mined.Candidate{unfit, {Reason: mined.Exists}}, true, ""},
		{"one not run", []mined.Candidate{unfit, notRun, {Reason: mined.Proven}}, true,
			"1 commit could not be run, and will be tried again next time; the first: its registry cannot be reached"},
	} {
		found := mine.Result{Candidates: tc.commits}
		if found.HasTasks() != tc.hasTasks {
			t.Errorf("%s: has tasks: %t", tc.name, !tc.hasTasks)
		}
		if err := found.NotRun(); (err == nil) != (tc.notRun == "") || err != nil && err.Error() != tc.notRun {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.notRun)
		}
	}
}
