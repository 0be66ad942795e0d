package github

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/lib/ghvars"
	"github.com/org/rollout-action/internal/test/githubtest"
)

// stepEnv returns the variables that GitHub sets for a step, with a file for the event. Source:
// docs.github.com, "Variables reference".
func stepEnv(t *testing.T, event string, change map[string]string) Getenv {
	t.Helper()
	file := filepath.Join(t.TempDir(), "event.json")
	if err := os.WriteFile(file, []byte(event), 0o600); err != nil {
		t.Fatal(err)
	}
	values := map[string]string{
		"GITHUB_ACTIONS": "true", "GITHUB_SERVER_URL": "https://github.com", "GITHUB_API_URL": "https://api.github.com",
		"GITHUB_REPOSITORY": "acme/widgets", "GITHUB_EVENT_NAME": "push", "GITHUB_EVENT_PATH": file, "GITHUB_ACTOR": "octocat",
		"GITHUB_JOB": "evaluate", "GITHUB_WORKSPACE": "/github/workspace", "GITHUB_SHA": sha(1), "GITHUB_REF": "refs/heads/main",
		"GITHUB_RUN_ID": "123", "GITHUB_RUN_NUMBER": "45", "GITHUB_RUN_ATTEMPT": "1",
		"GITHUB_WORKFLOW_REF": "acme/widgets/.github/workflows/ci.yml@refs/heads/main",
	}
	maps.Copy(values, change)
	return env(values)
}

// pushed returns the facts of stepEnv with an empty event.
func pushed() Actions {
	return Actions{
		ServerURL: "https://github.com", APIURL: "https://api.github.com", Repository: "acme/widgets", Event: "push", Actor: "octocat",
		Job: "evaluate", Workspace: "/github/workspace", SHA: sha(1), HeadSHA: sha(1), Ref: "refs/heads/main",
		RunID: 123, RunNumber: 45, RunAttempt: 1, WorkflowFile: "ci.yml",
	}
}

func TestFactsOfARun(t *testing.T) {
	pull := map[string]string{
		"GITHUB_EVENT_NAME": "pull_request", "GITHUB_REF": "refs/pull/7/merge", "GITHUB_BASE_REF": "main", "GITHUB_HEAD_REF": "feature",
	}
	with := func(base map[string]string, more ...string) map[string]string {
		out := maps.Clone(base)
		for i := 0; i < len(more); i += 2 {
			out[more[i]] = more[i+1]
		}
		return out
	}
	asPull := func(a *Actions) {
		a.Event, a.Ref, a.BaseRef, a.HeadBranch, a.Number = "pull_request", "refs/pull/7/merge", "main", "feature", 7
		a.HeadSHA, a.HeadRepository, a.BaseSHA = sha(7), "acme/widgets", sha(4)
	}
	pullEvent := func(headRepo string) string {
		return `{"number":7,"repository":{"default_branch":"trunk"},"pull_request":{"number":7,"head":{"ref":"feature","sha":"` + sha(7) +
			`","repo":` + headRepo + `},"base":{"ref":"main","sha":"` + sha(4) + `"}}}`
	}
	runEvent := func(headRepo string) string {
		return `{"repository":{"default_branch":"main"},"workflow_run":{"id":99,"run_attempt":2,"event":"pull_request",
			"path":".github/workflows/trials.yml","head_branch":"feature","head_sha":"` + sha(7) + `","head_repository":` + headRepo +
			`,"pull_requests":[{"number":666}]}}`
	}
	for _, tc := range []struct {
		name   string
		event  string
		env    map[string]string
		want   func(*Actions)
		only   bool // read-only
		asks   bool // NeedsPull
		branch string
	}{
		{name: "a push", event: `{"repository":{"default_branch":"trunk"}}`, want: func(a *Actions) { a.DefaultBranch = "trunk" }, branch: "trunk"},
		{name: "a push with the commit before", event: `{"before":"` + sha(9) + `"}`, want: func(a *Actions) { a.Before, a.Landed = sha(9), true }, branch: "main"},
		{name: "a new branch", event: `{"before":"0000000000000000000000000000000000000000"}`, want: func(a *Actions) { a.Landed = true }, branch: "main"},
		{name: "a push with an empty payload", event: `{}`, want: func(*Actions) {}, branch: "main"},
		{name: "a tag", event: `{}`, env: map[string]string{"GITHUB_REF": "refs/tags/v1"}, want: func(a *Actions) { a.Ref = "refs/tags/v1" }},
		{name: "a pull request", event: pullEvent(`{"full_name":"acme/widgets","fork":false}`), env: pull,
			want: func(a *Actions) { asPull(a); a.DefaultBranch = "trunk" }, branch: "main"},
		{name: "a merged pull request", event: strings.Replace(pullEvent(`{"full_name":"acme/widgets"}`), `"number":7,"head"`, `"number":7,"merged":true,"merge_commit_sha":"`+sha(1)+`","head"`, 1), env: pull,
			want: func(a *Actions) { asPull(a); a.DefaultBranch, a.Landed = "trunk", true }, branch: "main"},
		{name: "a fork", event: pullEvent(`{"full_name":"mallory/widgets","fork":true}`), env: pull,
			want: func(a *Actions) {
				asPull(a)
				a.DefaultBranch, a.Fork, a.HeadRepository = "trunk", true, "mallory/widgets"
			}, only: true, branch: "main"},
		{name: "a repository that is a fork itself", event: pullEvent(`{"full_name":"acme/widgets","fork":true}`), env: pull,
			want: func(a *Actions) { asPull(a); a.DefaultBranch = "trunk" }, branch: "main"},
		{name: "a fork that was deleted", event: pullEvent(`null`), env: pull,
			want: func(a *Actions) { asPull(a); a.DefaultBranch, a.Fork, a.HeadRepository = "trunk", true, "" }, only: true, branch: "main"},
		{name: "Dependabot", event: pullEvent(`{"full_name":"acme/widgets"}`), env: with(pull, "GITHUB_ACTOR", "dependabot[bot]"),
			want: func(a *Actions) { asPull(a); a.DefaultBranch, a.Dependabot, a.Actor = "trunk", true, "dependabot[bot]" }, only: true, branch: "main"},
		{name: "a fork with our rights", event: pullEvent(`{"full_name":"mallory/widgets"}`),
			env: with(pull, "GITHUB_EVENT_NAME", "pull_request_target", "GITHUB_REF", "refs/heads/main"),
			want: func(a *Actions) {
				asPull(a)
				a.DefaultBranch, a.Fork, a.HeadRepository, a.Event, a.Ref = "trunk", true, "mallory/widgets", "pull_request_target", "refs/heads/main"
			}, branch: "main"},
		{name: "the end of another run", event: runEvent(`{"full_name":"mallory/widgets"}`), env: map[string]string{"GITHUB_EVENT_NAME": "workflow_run"},
			want: func(a *Actions) {
				a.Event, a.DefaultBranch, a.HeadSHA, a.HeadBranch, a.HeadRepository, a.Fork = "workflow_run", "main", sha(7), "feature", "mallory/widgets", true
				a.Origin = &Origin{RunID: 99, RunAttempt: 2, Event: "pull_request", WorkflowFile: "trials.yml"}
			}, asks: true},
		{name: "the end of another run of our own", event: runEvent(`{"full_name":"Acme/Widgets"}`), env: map[string]string{"GITHUB_EVENT_NAME": "workflow_run"},
			want: func(a *Actions) {
				a.Event, a.DefaultBranch, a.HeadSHA, a.HeadBranch, a.HeadRepository = "workflow_run", "main", sha(7), "feature", "Acme/Widgets"
				a.Origin = &Origin{RunID: 99, RunAttempt: 2, Event: "pull_request", WorkflowFile: "trials.yml"}
			}, asks: true},
		{name: "the end of another run, of a push", env: map[string]string{"GITHUB_EVENT_NAME": "workflow_run"},
			event: strings.NewReplacer(`"pull_request",`, `"push",`, "trials.yml", "trials.yml@main").Replace(runEvent(`{"full_name":"acme/widgets"}`)),
			want: func(a *Actions) {
				a.Event, a.DefaultBranch, a.HeadSHA, a.HeadBranch, a.HeadRepository = "workflow_run", "main", sha(7), "feature", "acme/widgets"
				a.Origin = &Origin{RunID: 99, RunAttempt: 2, Event: "push", WorkflowFile: "trials.yml"}
			}, branch: "main"},
		{name: "a merge queue", event: `{"merge_group":{"head_sha":"` + sha(9) + `","base_ref":"refs/heads/main","base_sha":"` + sha(8) + `"}}`, env: map[string]string{"GITHUB_EVENT_NAME": "merge_group"},
			want: func(a *Actions) {
				a.Event, a.HeadSHA, a.BaseRef, a.Before, a.Landed = "merge_group", sha(9), "main", sha(8), true
			}, branch: "main"},
		{name: "a comment on a pull request", event: `{"issue":{"number":8,"pull_request":{"url":"x"}}}`, env: map[string]string{"GITHUB_EVENT_NAME": "issue_comment"},
			want: func(a *Actions) { a.Event, a.Number = "issue_comment", 8 }, branch: "main"},
		{name: "a comment on an issue", event: `{"issue":{"number":8}}`, env: map[string]string{"GITHUB_EVENT_NAME": "issue_comment"},
			want: func(a *Actions) { a.Event = "issue_comment" }, branch: "main"},
		{name: "invalid hashes", event: strings.ReplaceAll(pullEvent(`{"full_name":"acme/widgets"}`), sha(7), `x)](http://evil`),
			env: with(pull, "GITHUB_SHA", "HEAD"), want: func(a *Actions) { asPull(a); a.DefaultBranch, a.SHA, a.HeadSHA = "trunk", "", "" }, branch: "main"},
		{name: "an enterprise server", event: `{}`, env: map[string]string{"GITHUB_SERVER_URL": "https://ghe.example/", "GITHUB_API_URL": "https://ghe.example/api/v3"},
			want: func(a *Actions) { a.ServerURL, a.APIURL = "https://ghe.example", "https://ghe.example/api/v3" }, branch: "main"},
		{name: "a re-run", event: `{}`, env: map[string]string{"GITHUB_RUN_ATTEMPT": "3"}, want: func(a *Actions) { a.RunAttempt = 3 }, branch: "main"},
		{name: "invalid numbers", event: `{}`, env: map[string]string{"GITHUB_RUN_ID": "x", "GITHUB_RUN_NUMBER": "-1", "GITHUB_RUN_ATTEMPT": ""},
			want: func(a *Actions) { a.RunID, a.RunNumber = 0, 0 }, branch: "main"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, inside, err := fromEnv(stepEnv(t, tc.event, tc.env))
			if err != nil || !inside {
				t.Fatalf("%v, %v", inside, err)
			}
			want := pushed()
			tc.want(&want)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
			if source := got.SourceRun(); source != got.RunID && source != 99 || (source == 99) != (got.Event == "workflow_run") {
				t.Errorf("the job's run is %d", source)
			}
			if got.ReadOnly() != tc.only || got.NeedsPull() != tc.asks || got.BaselineBranch() != tc.branch {
				t.Errorf("read only %v, needs pull %v, baseline %q", got.ReadOnly(), got.NeedsPull(), got.BaselineBranch())
			}
		})
	}
}

func TestNoFactsOutsideARun(t *testing.T) {
	for _, getenv := range []Getenv{env(nil), env(map[string]string{"GITHUB_ACTIONS": "false", "GITHUB_REPOSITORY": "a/b"})} {
		if got, inside, err := fromEnv(getenv); inside || err != nil || got.Repository != "" {
			t.Errorf("got %+v, %v, %v", got, inside, err)
		}
	}
}

func TestUnreadableEvent(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large")
	f, err := os.Create(large)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(maxEvent+1), f.Close()); err != nil { // a sparse file
		t.Fatal(err)
	}
	if _, _, err := fromEnv(stepEnv(t, "", map[string]string{"GITHUB_EVENT_PATH": large})); err == nil || !strings.Contains(err.Error(), "larger than 32 MiB") {
		t.Errorf("the error is %v", err)
	}
	for name, change := range map[string]map[string]string{
		"there is none":     {"GITHUB_EVENT_PATH": filepath.Join(dir, "none")},
		"it is not set":     {"GITHUB_EVENT_PATH": ""},
		"it is a directory": {"GITHUB_EVENT_PATH": dir},
		"it is too large":   {"GITHUB_EVENT_PATH": large},
		"it is not JSON":    {},
		"a pull request's:": {"GITHUB_EVENT_NAME": "pull_request", "GITHUB_REF": "refs/pull/7/merge"},
	} {
		t.Run(name, func(t *testing.T) {
			got, inside, err := fromEnv(stepEnv(t, "{", change))
			if !inside || err == nil || got.Repository != "acme/widgets" {
				t.Errorf("got %+v, %v, %v", got, inside, err)
			}
			if isPull := got.Event == "pull_request"; got.Fork != isPull || got.ReadOnly() != isPull || (got.Number == 7) != isPull {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestLinks(t *testing.T) {
	a := pushed()
	for got, want := range map[string]string{
		a.RunURL():    "https://github.com/acme/widgets/actions/runs/123",
		a.CommitURL(): "https://github.com/acme/widgets/commit/" + sha(1),
		a.FilesURL():  "https://github.com/acme/widgets/tree/" + sha(1),
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	a.RunAttempt = 2
	if got, want := a.RunURL(), "https://github.com/acme/widgets/actions/runs/123/attempts/2"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for name, change := range map[string]func(*Actions){
		"no facts":                      func(a *Actions) { *a = Actions{} },
		"an invalid repository":         func(a *Actions) { a.Repository = "acme" },
		"a repository that ends a link": func(a *Actions) { a.Repository = "acme/x)](y" },
		"an invalid server":             func(a *Actions) { a.ServerURL = "github.com" },
		"a server that ends a link":     func(a *Actions) { a.ServerURL = "https://x) <b>" },
		"neither run nor commit":        func(a *Actions) { a.RunID, a.HeadSHA = 0, "" },
	} {
		a := pushed()
		change(&a)
		if got := a.RunURL() + a.CommitURL() + a.FilesURL(); got != "" {
			t.Errorf("%s: got %s", name, got)
		}
	}
}

func TestWorkflowFile(t *testing.T) {
	for in, want := range map[string]string{
		"acme/widgets/.github/workflows/ci.yml@refs/heads/main":    "ci.yml",
		"acme/widgets/.github/workflows/ci.yml@refs/heads/a@b":     "ci.yml",
		"acme/widgets/.github/workflows/c@i.yml@refs/heads/a":      "c@i.yml",
		"Acme/Widgets/.github/workflows/CI.yaml@refs/pull/7/merge": "CI.yaml",
		"acme/widgets/.github/workflows/ci.yml@0123456789abcdef":   "ci.yml",
		"acme/policies/.github/workflows/ci.yml@refs/heads/main":   "",
		"acme/widgets/.github/workflows/a/ci.yml@refs/heads/main":  "",
		"acme/widgets/.github/workflows/@refs/heads/main":          "",
		"acme/widgets/.github/workflows/ci.yml":                    "",
		"":                                                         "",
	} {
		if got := workflowFile(in, "acme/widgets"); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestFindPull(t *testing.T) {
	facts := func() Actions {
		a := pushed()
		a.Event, a.HeadSHA, a.HeadBranch, a.HeadRepository, a.Fork = "workflow_run", sha(7), "patch", "mallory/widgets", true
		a.Origin = &Origin{RunID: 99, Event: "pull_request"}
		return a
	}
	fork := githubtest.Pull{Number: 12, HeadRepo: "mallory/widgets", HeadBranch: "patch", HeadSHA: sha(7), Base: "main"}
	for _, tc := range []struct {
		name   string
		pulls  []githubtest.Pull
		change func(*Actions)
		want   Pull
		reason string
	}{
		{name: "a fork", pulls: []githubtest.Pull{fork}, want: Pull{12, sha(7), "main", true}},
		{name: "one of several", pulls: []githubtest.Pull{
			fork,
			{Number: 13, HeadRepo: "eve/widgets", HeadBranch: "patch", HeadSHA: sha(7), Base: "main"},
			{Number: 14, HeadRepo: "mallory/widgets", HeadBranch: "other", HeadSHA: sha(7), Base: "main"},
			{Number: 15, HeadRepo: "mallory/gadgets", HeadBranch: "patch", HeadSHA: sha(7), Base: "main"},
			{Number: 16, HeadRepo: "mallory/widgets", HeadBranch: "patch", HeadSHA: sha(7), Base: "main", State: "closed"},
		}, want: Pull{12, sha(7), "main", true}},
		{name: "a head that has moved on", pulls: []githubtest.Pull{{Number: 12, HeadRepo: "mallory/widgets", HeadBranch: "patch", HeadSHA: sha(8)}},
			reason: "none of mallory:patch has 7000000 as its head"},
		{name: "none", reason: "none of mallory:patch"},
		{name: "two with one head", pulls: []githubtest.Pull{fork, {Number: 13, HeadRepo: "mallory/widgets", HeadBranch: "patch", HeadSHA: sha(7), Base: "next"}},
			reason: "#13 and #12 have the same head"},
		{name: "a deleted fork", change: func(a *Actions) { a.HeadRepository = "" }, reason: "is gone"},
		{name: "a hostile branch", change: func(a *Actions) { a.HeadBranch = "x\n##[error]\u202e" }, reason: "none of mallory:x⏎## [error] has"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, c, _ := fixture(t)
			for _, p := range tc.pulls {
				s.AddPull(repo, p)
			}
			a := facts()
			if tc.change != nil {
				tc.change(&a)
			}
			got, err := c.FindPull(t.Context(), a)
			if got != tc.want || errors.Is(err, ErrNoPull) != (tc.reason != "") {
				t.Fatalf("got %+v, %v, want %+v", got, err, tc.want)
			}
			if err != nil && !strings.Contains(err.Error(), tc.reason) {
				t.Errorf("the reason is %q, want %q in it", err, tc.reason)
			}
		})
	}
	t.Run("a token without the permission", func(t *testing.T) {
		s, _, clock := fixture(t)
		s.AddToken("none", githubtest.Access{Login: actionsBot, Integration: true})
		_, err := client(t, s, clock, "none").FindPull(t.Context(), facts())
		if !errors.Is(err, ErrReadOnly) || errors.Is(err, ErrNoPull) {
			t.Errorf("the error is %v", err)
		}
	})
	t.Run("a failing server", func(t *testing.T) {
		_, _, clock := fixture(t)
		s := githubtest.New(t) // without the repository
		_, err := client(t, s, clock, githubtest.WriteToken).FindPull(t.Context(), facts())
		if err == nil || errors.Is(err, ErrNoPull) {
			t.Errorf("the error is %v", err)
		}
	})
}

// fromEnv returns the facts of a step. The bool is false outside of GitHub Actions.
func fromEnv(getenv Getenv) (Actions, bool, error) {
	vars := ghvars.Read(getenv)
	if !vars.Actions {
		return Actions{}, false, nil
	}
	a, err := factsOf(vars)
	return a, true, err
}
