package github

import (
	"errors"
	"fmt"
	"testing"

	"github.com/org/rollout-action/internal/test/githubtest"
)

// evaluating adds a run on main for commit n, whose result is of another commit.
func evaluating(t *testing.T, s *githubtest.Server, n int, event, commit string) int64 {
	t.Helper()
	return ran(t, s, n, func(r *githubtest.Run, a *githubtest.Artifact) {
		r.Event = event
		a.Files = map[string]string{"result.json": recording(n, commit), "verdict.json": "{}"}
	})
}

// recording returns the result of a run for commit n that evaluated another one.
func recording(n int, commit string) string {
	return fmt.Sprintf(`{"job_name":"of commit %d","commit":%q,"agents":{},"results":[]}`, n, commit)
}

// Whoever starts the workflow on main may name any commit for it to check out.
func TestARunThatEvaluatedAnotherCommitIsNoBaseline(t *testing.T) {
	for name, c := range map[string]struct {
		event, commit string
		taken         bool
	}{
		"a manual run of the commit that it ran on":       {manual, sha(4), true},
		"a manual run of a branch":                        {manual, sha(7), false},
		"a manual run of a fork's commit":                 {manual, sha(11), false},
		"a manual run of an older commit of main":         {manual, sha(1), false},
		"a manual run of a later commit of main":          {manual, sha(6), false},
		"a manual run of a tag that no branch has":        {manual, sha(12), false},
		"a manual run of a commit that GitHub lacks":      {manual, sha(15), false},
		"a manual run of no commit":                       {manual, "main", false},
		"a push that checked out a branch":                {"push", sha(7), false},
		"a push that checked out a fork's commit":         {"push", sha(11), false},
		"a push that checked out what came later":         {"push", sha(6), false},
		"a push that checked out an older commit":         {"push", sha(3), true},
		"a push that evaluated another repository":        {"push", sha(15), true},
		"a schedule that checked out a pull request":      {"schedule", sha(7), false},
		"a schedule that checked out an unrelated branch": {"schedule", sha(13), false},
		"a schedule that evaluated another repository":    {"schedule", sha(15), true},
		"a push of no commit":                             {"push", "../../x", false},
	} {
		t.Run(name, func(t *testing.T) {
			s, c2 := history(t)
			s.AddCommit(repo, sha(11), sha(4)) // of a fork's pull request
			s.AddCommit(repo, sha(12), sha(4)) // tagged
			s.AddCommit(repo, sha(13))         // has nothing in common with main
			own := ran(t, s, 2)
			id := evaluating(t, s, 4, c.event, c.commit)
			want := own
			if c.taken {
				want = id
			}
			f, err := c2.FindBaseline(t.Context(), query(), t.TempDir())
			if err != nil || f.RunID != want {
				t.Errorf("found %+v, %v, want run %d", f, err, want)
			}
		})
	}
}

func TestTheReasonNamesTheCommitThatARunEvaluated(t *testing.T) {
	s, c := history(t)
	evaluating(t, s, 4, manual, sha(7))
	none(t, c, query(), "the run evaluated another commit: somebody started it on 4000000, but its result is of 7000000")
	s, c = history(t)
	evaluating(t, s, 4, "push", sha(7))
	none(t, c, query(), "the run evaluated another commit: its result is of 7000000, which main does not have")
}

// A run that evaluated something else lacks trials, too: it must not come back as the best of the
// incomplete ones.
func TestAnIncompleteResultOfAnotherCommitIsNoBaselineEither(t *testing.T) {
	s, c := history(t)
	ran(t, s, 4, func(r *githubtest.Run, a *githubtest.Artifact) {
		r.Event = manual
		a.Files = map[string]string{"result.json": fmt.Sprintf(`{"job_name":"torn","commit":%q,"skipped_trials":4,"total_trials":10,"agents":{}}`, sha(7))}
	})
	none(t, c, query(), "evaluated another commit")
}

// What later runs and reports show as the history of main is of main, too.
func TestResultsOfABranchAreOfItsCommits(t *testing.T) {
	s, c := history(t)
	evaluating(t, s, 4, manual, sha(7))
	evaluating(t, s, 5, "schedule", sha(7))
	q := query()
	q.Commit = ""
	if found, err := c.FindResults(t.Context(), q, 10, t.TempDir()); !errors.Is(err, ErrNoBaseline) {
		t.Errorf("found %+v, %v", found, err)
	}
	newest := evaluating(t, s, 5, "schedule", sha(6)) // main had a newer commit when the run checked it out
	own := ran(t, s, 3)
	found, err := c.FindResults(t.Context(), q, 10, t.TempDir())
	if err != nil || len(found) != 2 || found[0].RunID != own || found[1].RunID != newest {
		t.Errorf("found %+v, %v, want the runs %d and %d", found, err, own, newest)
	}
}

// A comment, an event from outside and a merge queue run with the workflow of main, too, but for
// the commit of a pull request. A tag may have the name of the branch.
func TestRunsOfOtherEventsOnMainAreNoBaselines(t *testing.T) {
	for _, event := range []string{"issue_comment", "repository_dispatch", "merge_group", "workflow_call", "release"} {
		s, c := history(t)
		own := ran(t, s, 2)
		evaluating(t, s, 4, event, sha(4))
		if f, err := c.FindBaseline(t.Context(), query(), t.TempDir()); err != nil || f.RunID != own {
			t.Errorf("%s: found %+v, %v, want run %d", event, f, err, own)
		}
	}
	s, c := history(t)
	own := ran(t, s, 2)
	evaluating(t, s, 7, "push", sha(7)) // of the tag main
	q := query()
	q.Commit = sha(4)
	if f, err := c.FindBaseline(t.Context(), q, t.TempDir()); err != nil || f.RunID != own {
		t.Errorf("a tag: found %+v, %v, want run %d", f, err, own)
	}
}
