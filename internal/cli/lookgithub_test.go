package cli

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/githubtest"
)

// A run lands on the base branch between two looks. The output of the first look keeps the later
// ones to the baseline that it compared with, and they refuse the newer one.
func TestLaterLooksCompareWithTheBaselineOfTheFirst(t *testing.T) {
	t.Parallel()
	s := newReuseScene(t)
	g := githubtest.New(t)
	g.AddRepo("acme/widgets")
	g.AddCommit("acme/widgets", mainCommit)
	g.AddCommit("acme/widgets", headCommit, mainCommit)
	g.AddCommit("acme/widgets", mergeCommit, mainCommit, headCommit)
	g.SetBranch("acme/widgets", "main", mainCommit)
	g.AddPull("acme/widgets", githubtest.Pull{Number: 7, HeadBranch: "change", HeadSHA: headCommit, Base: "main"})
	land := func(reward float64) int64 {
		var base result.Job
		if err := json.Unmarshal([]byte(s.read("stored/result.json")), &base); err != nil {
			t.Fatal(err)
		}
		base.Commit = new(mainCommit)
		for i := range base.Results.Len() {
			base.Results.Change(i, func(o *result.Outcome) { o.Reward = &reward })
		}
		text, err := json.Marshal(base)
		if err != nil {
			t.Fatal(err)
		}
		run := g.AddRun("acme/widgets", githubtest.Run{WorkflowFile: "agent.yml", Branch: "main", SHA: mainCommit})
		if _, err := g.AddArtifact("acme/widgets", run, githubtest.Artifact{Name: "rollout-result", Files: map[string]string{"result.json": string(text)}}); err != nil {
			t.Fatal(err)
		}
		return run
	}
	first := land(1)
	s.write("event.json", `{"pull_request": {"number": 7, "head": {"sha": "`+headCommit+`", "ref": "change", "repo": {"full_name": "acme/widgets"}}, "base": {"ref": "main"}},
		"repository": {"full_name": "acme/widgets", "default_branch": "main"}}`)
	s.vars = map[string]string{
		"GITHUB_ACTIONS": "true", "GITHUB_REPOSITORY": "acme/widgets", "GITHUB_EVENT_NAME": "pull_request", "GITHUB_OUTPUT": filepath.Join(s.dir, "outputs"),
		"GITHUB_EVENT_PATH": filepath.Join(s.dir, "event.json"), "GITHUB_API_URL": g.URL, "GITHUB_SERVER_URL": "https://github.com",
		"GITHUB_SHA": mergeCommit, "GITHUB_REF": "refs/pull/7/merge", "GITHUB_BASE_REF": "main", "GITHUB_HEAD_REF": "change",
		"GITHUB_RUN_ID": "42", "GITHUB_WORKFLOW_REF": "acme/widgets/.github/workflows/agent.yml@refs/pull/7/merge", "GITHUB_TOKEN": githubtest.WriteToken,
	}
	round := func(code int, n, baseline string) {
		for _, shard := range []string{"1/2", "2/2"} {
			s.rollout(code, "run", "job.yaml", "--name", "p", "--jobs-dir", "parts", "--set", "gate.confirm=null", "--noise", "test", "--stop-early", "--n-attempts", "3",
				"--shard", shard, "--round", n, "--baseline", baseline, "--log-format", "plain")
		}
	}
	round(0, "1", "github:")
	s.rollout(0, "merge", "parts", "--look", "--baseline", "github:")
	pinned := fmt.Sprintf("github:main:%d", first)
	if text := s.read("outputs"); !strings.Contains(text, "baseline<<") || !strings.Contains(text, "\n"+pinned+"\n") {
		t.Fatalf("the look does not name its baseline %s:\n%s", pinned, text)
	}

	land(0)
	round(0, "3", pinned)
	s.rollout(2, "merge", "parts", "--output", "whole", "--baseline", "github:")
	s.says("looks at different baselines give no verdict", "Give --baseline "+pinned)
	s.rollout(0, "merge", "parts", "--output", "whole", "--baseline", pinned)
	s.says("main at", fmt.Sprintf("the run that was named; run %d", first))

	s.rollout(3, "merge", "parts", "--output", "gone", "--baseline", "github:main:987654321")
	s.says("--baseline github:main:987654321: the result that this job was compared with is no longer available", "Re-run all jobs")
}
