package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/githubtest"
)

// A job is continued from another commit: its baseline is that of the commit with which it began,
// as in its verdict, and not that of today's.
func TestResumeReusesTheBaselineOfItsStart(t *testing.T) {
	const older = "4444444444444444444444444444444444444444"
	s := newReuseScene(t)
	g := githubtest.New(t)
	g.AddRepo("acme/widgets")
	g.AddCommit("acme/widgets", older)
	g.AddCommit("acme/widgets", mainCommit, older)
	g.AddCommit("acme/widgets", headCommit, older)
	g.AddCommit("acme/widgets", mergeCommit, mainCommit, headCommit)
	g.SetBranch("acme/widgets", "main", mainCommit)
	g.AddPull("acme/widgets", githubtest.Pull{Number: 7, HeadBranch: "change", HeadSHA: headCommit, Base: "main"})
	var base result.Job
	if err := json.Unmarshal([]byte(s.read("stored/result.json")), &base); err != nil {
		t.Fatal(err)
	}
	for commit, agent := range map[string]string{older: base.Experiments[0].AgentDigest, mainCommit: "sha256:another"} {
		base.Commit, base.Experiments[0].AgentDigest = new(commit), agent
		text, err := json.Marshal(base)
		if err != nil {
			t.Fatal(err)
		}
		run := g.AddRun("acme/widgets", githubtest.Run{WorkflowFile: "agent.yml", Branch: "main", SHA: commit})
		if _, err := g.AddArtifact("acme/widgets", run, githubtest.Artifact{Name: "rollout-result", Files: map[string]string{"result.json": string(text)}}); err != nil {
			t.Fatal(err)
		}
	}
	s.write("event.json", `{"pull_request": {"number": 7, "head": {"sha": "`+headCommit+`", "ref": "change", "repo": {"full_name": "acme/widgets"}}, "base": {"ref": "main"}},
		"repository": {"full_name": "acme/widgets", "default_branch": "main"}}`)
	s.stop = func() bool { // after the first trial
		_, err := os.Stat(filepath.Join(s.dir, "jobs/pr/a/evals/broken__1/result.json"))
		return err == nil
	}
	s.rollout(130, "run", "job.yaml", "--baseline", "none", "--set", "gate.on_no_baseline=pass", "--log-format", "plain")
	s.stop = nil
	s.vars = map[string]string{
		"GITHUB_ACTIONS": "true", "GITHUB_REPOSITORY": "acme/widgets", "GITHUB_EVENT_NAME": "pull_request",
		"GITHUB_EVENT_PATH": filepath.Join(s.dir, "event.json"), "GITHUB_API_URL": g.URL, "GITHUB_SERVER_URL": "https://github.com",
		"GITHUB_SHA": mergeCommit, "GITHUB_REF": "refs/pull/7/merge", "GITHUB_BASE_REF": "main", "GITHUB_HEAD_REF": "change",
		"GITHUB_RUN_ID": "42", "GITHUB_WORKFLOW_REF": "acme/widgets/.github/workflows/agent.yml@refs/pull/7/merge", "GITHUB_TOKEN": githubtest.WriteToken,
	}
	var plan map[string]any
	if err := json.Unmarshal([]byte(s.read("jobs/pr/plan.json")), &plan); err != nil {
		t.Fatal(err)
	}
	plan["commit"], plan["parents"] = headCommit, []string{older}
	text, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	s.write("jobs/pr/plan.json", string(text))
	again := []string{"run", "job.yaml", "--baseline", "github:", "--reuse", "baseline", "--resume", "--set", "gate.on_no_baseline=pass"}
	s.rollout(0, append(again, "--dry-run")...)
	s.says("Reused: 2 trials")
	s.rollout(0, append(again, "--log-format", "plain")...)
	s.says("Reused 2 of 2 trials", "main at 4444444")
	if text := s.read("jobs/pr/a/evals/steady__1/result.json"); !strings.Contains(text, older) || !strings.Contains(text, "https://github.com/acme/widgets/actions/runs/") {
		t.Errorf("the trial does not name the baseline and its run: %s", text)
	}
}
