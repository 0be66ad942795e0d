package github

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
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
	named := dispatch("main", 6)
	named.Named = 8
	plain := comment
	plain.Number = 0
	for _, tc := range []struct {
		name    string
		facts   Actions
		commit  string
		parents []string
		branch  string
		head    string // of the pull request that was asked; "": none
		doubt   bool
	}{
		{"a comment on a pull request to a release", comment, sha(8), nil, "release", sha(8), false},
		{"a comment on a pull request, of a merge", comment, sha(12), []string{sha(9), sha(8)}, "release", sha(8), false},
		{"a comment on a pull request, of nobody knows what", comment, "", nil, "release", sha(8), false},
		{"a comment on an issue", plain, sha(6), nil, "main", "", false},
		{"a comment on an issue that names a pull request", plain, sha(8), nil, "release", sha(8), false},
		{"a dispatch for a branch with a pull request to a release", dispatch("fix", 8), sha(8), nil, "release", sha(8), false},
		{"a dispatch for a branch with a pull request to main", dispatch("feature", 7), sha(7), nil, "main", sha(7), false},
		{"a dispatch with an input that names the merge", dispatch("main", 6), sha(12), []string{sha(9), sha(8)}, "release", sha(8), false},
		{"a dispatch for main, which a pull request brings to a release", dispatch("main", 6), sha(6), nil, "main", "", false},
		{"a dispatch for a branch without a pull request", dispatch("alone", 11), sha(11), nil, "main", "", false},
		{"a dispatch for a branch whose pull request is closed", dispatch("closed", 13), sha(13), nil, "main", "", false},
		{"a dispatch for a branch with pull requests to two branches", dispatch("two", 14), sha(14), nil, "main", "", true},
		{"a dispatch for main with an input that names the pull request", named, sha(6), nil, "release", sha(8), false},
		{"the same, of the pull request's head", named, sha(8), nil, "release", sha(8), false},
		{"a run after a comment", after, sha(8), nil, "release", sha(8), false},
		{"a push", Actions{Repository: repo, Event: "push", Ref: "refs/heads/fix", SHA: sha(8), DefaultBranch: "main"}, sha(8), nil, "main", "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, c := released(t)
			base, err := c.BaselineOf(t.Context(), tc.facts, tc.commit, tc.parents)
			head := ""
			if base.Pull != nil {
				head = base.Pull.HeadSHA
			}
			if err != nil || base.Branch != tc.branch || head != tc.head {
				t.Errorf("got %+v, %v, want %q and head %q; %q", base, err, tc.branch, tc.head, s.Seen())
			}
			if (base.Doubt != "") != tc.doubt {
				t.Errorf("the branch is in doubt: %q", base.Doubt)
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
	if _, err := c.BaselineOf(t.Context(), facts, sha(8), nil); !errors.Is(err, ErrNoBaseline) || !strings.Contains(err.Error(), "pull-requests: read") {
		t.Errorf("got %v, want no baseline", err)
	}
	facts = Actions{Repository: repo, Event: "workflow_dispatch", Ref: "refs/heads/main", SHA: sha(6), DefaultBranch: "main", Named: 8}
	if _, err := c.BaselineOf(t.Context(), facts, sha(6), nil); !errors.Is(err, ErrNoBaseline) || !strings.Contains(err.Error(), "pull-requests: read") {
		t.Errorf("got %v for a pull request that an input names, want no baseline", err)
	}
	facts = Actions{Repository: repo, Event: "workflow_dispatch", Ref: "refs/heads/fix", SHA: sha(8), DefaultBranch: "main"}
	if base, err := c.BaselineOf(t.Context(), facts, sha(8), nil); base.Branch != "main" || base.Pull != nil || err != nil || !strings.Contains(base.Doubt, "pull-requests: read") {
		t.Errorf("got %+v, %v, want main, and that it may be wrong", base, err)
	}
}

func TestInputsNameAPullRequest(t *testing.T) {
	for name, c := range map[string]struct {
		inputs string
		want   int
	}{
		"a number":                         {`{"pull-request": 7}`, 7},
		"as GitHub sends it":               {`{"pr": "7", "ref": "x"}`, 7},
		"as people write it":               {`{"Pull_Request_Number": " #7 "}`, 7},
		"two names of one":                 {`{"pr": "7", "pull": "7"}`, 7},
		"two pull requests":                {`{"pr": "7", "pull": "8"}`, 0},
		"an object as in GitHub's events":  {`{"pull_request": {"number": 7}}`, 7},
		"no number":                        {`{"pr": "", "pull": "main", "pull-request": null, "pr-number": true}`, 0},
		"a number that is none of a pull":  {`{"pr": "-7", "pull": "0", "pr_number": "99999999999", "number": "7"}`, 0},
		"a number that is not whole":       {`{"pr": 7.5}`, 0},
		"a large number as JSON writes it": {`{"pr": 1234567}`, 1234567},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "event.json")
			if err := os.WriteFile(file, []byte(`{"inputs": `+c.inputs+`}`), 0o600); err != nil {
				t.Fatal(err)
			}
			vars := map[string]string{"GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": "workflow_dispatch", "GITHUB_EVENT_PATH": file}
			e := ReadEnvironment(func(name string) (string, bool) { v, ok := vars[name]; return v, ok })
			if e.Err != nil || e.Named != c.want || !e.Inputs {
				t.Errorf("got %d, inputs %v, %v", e.Named, e.Inputs, e.Err)
			}
		})
	}
}
