package github

import (
	"errors"
	"testing"

	"github.com/org/rollout-action/internal/test/githubtest"
)

// The events of a comment and a dispatch do not name the pull request's base: GitHub is asked, and
// main is not assumed.
func TestBaseOfAPullRequestThatTheEventDoesNotDescribe(t *testing.T) {
	comment := Actions{Repository: repo, Event: "issue_comment", Ref: "refs/heads/main", SHA: sha(6), HeadSHA: sha(6), DefaultBranch: "main", Number: 8}
	dispatch := func(branch string, n int) Actions {
		return Actions{Repository: repo, Event: "workflow_dispatch", Ref: "refs/heads/" + branch, SHA: sha(n), HeadSHA: sha(n), DefaultBranch: "main"}
	}
	after := Actions{Repository: repo, Event: "workflow_run", SHA: sha(6), HeadSHA: sha(6), DefaultBranch: "main", Origin: &Origin{Event: "issue_comment"}}
	plain := comment
	plain.Number = 0
	for _, tc := range []struct {
		name    string
		facts   Actions
		commit  string
		parents []string
		branch  string
		head    string // of the pull request that was asked; "": none
	}{
		{"a comment on a pull request to a release", comment, sha(8), nil, "release", sha(8)},
		{"a comment on a pull request, of a merge", comment, sha(12), []string{sha(9), sha(8)}, "release", sha(8)},
		{"a comment on a pull request, of nobody knows what", comment, "", nil, "release", sha(8)},
		{"a comment on an issue", plain, sha(6), nil, "main", ""},
		{"a comment on an issue that names a pull request", plain, sha(8), nil, "release", sha(8)},
		{"a dispatch for a branch with a pull request to a release", dispatch("fix", 8), sha(8), nil, "release", sha(8)},
		{"a dispatch for a branch with a pull request to main", dispatch("feature", 7), sha(7), nil, "main", sha(7)},
		{"a dispatch with an input that names the merge", dispatch("main", 6), sha(12), []string{sha(9), sha(8)}, "release", sha(8)},
		{"a dispatch for main, which a pull request brings to a release", dispatch("main", 6), sha(6), nil, "main", ""},
		{"a dispatch for a branch without a pull request", dispatch("alone", 11), sha(11), nil, "main", ""},
		{"a dispatch for a branch whose pull request is closed", dispatch("closed", 13), sha(13), nil, "main", ""},
		{"a dispatch for a branch with pull requests to two branches", dispatch("two", 14), sha(14), nil, "main", ""},
		{"a run after a comment", after, sha(8), nil, "release", sha(8)},
		{"a push", Actions{Repository: repo, Event: "push", Ref: "refs/heads/fix", SHA: sha(8), DefaultBranch: "main"}, sha(8), nil, "main", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, c := released(t)
			branch, asked, err := c.BaselineOf(t.Context(), tc.facts, tc.commit, tc.parents)
			head := ""
			if asked != nil {
				head = asked.HeadSHA
			}
			if err != nil || branch != tc.branch || head != tc.head {
				t.Errorf("got %q, %+v, %v, want %q and head %q; %q", branch, asked, err, tc.branch, tc.head, s.Seen())
			}
		})
	}
}

// released is history with a branch release at 9, which began at 3, and pull requests from branches
// of it.
func released(t *testing.T) (*githubtest.Server, *Client) {
	t.Helper()
	s, c := history(t)
	s.AddCommit(repo, sha(9), sha(3))
	for _, n := range []int{8, 11, 13, 14} {
		s.AddCommit(repo, sha(n), sha(9))
	}
	s.AddCommit(repo, sha(12), sha(9), sha(8))
	s.SetBranch(repo, "release", sha(9))
	for _, p := range []githubtest.Pull{
		{Number: 8, HeadBranch: "fix", HeadSHA: sha(8), Base: "release"},
		{Number: 9, HeadBranch: "main", HeadSHA: sha(6), Base: "release"},
		{Number: 10, HeadBranch: "closed", HeadSHA: sha(13), Base: "release", State: "closed"},
		{Number: 11, HeadBranch: "two", HeadSHA: sha(14), Base: "release"},
		{Number: 12, HeadBranch: "two", HeadSHA: sha(14), Base: "main"},
	} {
		s.AddPull(repo, p)
	}
	return s, c
}

// A base that is not known is not assumed to be main. A dispatch need not be about a pull request.
func TestBaseOfAPullRequestThatCannotBeRead(t *testing.T) {
	s, _ := released(t)
	access := githubtest.Workflow()
	access.Pulls = 0
	s.AddToken("no-pulls", access)
	c := client(t, s, newClock(), "no-pulls")
	facts := Actions{Repository: repo, Event: "issue_comment", DefaultBranch: "main", Number: 8}
	if _, _, err := c.BaselineOf(t.Context(), facts, sha(8), nil); !errors.Is(err, ErrNoBaseline) {
		t.Errorf("got %v, want no baseline", err)
	}
	facts = Actions{Repository: repo, Event: "workflow_dispatch", Ref: "refs/heads/fix", SHA: sha(8), DefaultBranch: "main"}
	if branch, asked, err := c.BaselineOf(t.Context(), facts, sha(8), nil); branch != "main" || asked != nil || err != nil {
		t.Errorf("got %q, %v, %v", branch, asked, err)
	}
}
