package actiontest

import (
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/githubtest"
	"github.com/org/rollout-action/internal/test/testenv"
	"github.com/org/rollout-action/internal/test/testprogram"
)

// affects makes the repository's job say that the skill apple affects one task, and docs none.
func (r *repository) affects() {
	r.t.Helper()
	const file = "evals/job.yaml"
	write(r.t, r.dir, map[string]string{file: read(r.t, r.dir, file) + `affects:
  - {paths: ["docs/**"], tasks: []}
  - {paths: ["skills/apple/**"], tasks: [apple]}
`})
}

// labeled returns the event of a label that was put on a pull request.
func labeled(label, head, base, headRepo string) map[string]any {
	event := pull(head, base, headRepo)
	event["action"], event["label"] = "labeled", map[string]any{"name": label}
	return event
}

// wantTrials checks which tasks the merged job has trials of.
func (a *acted) wantTrials(tasks ...string) {
	a.t.Helper()
	job, _, err := result.ReadJob(filepath.Join(a.artifact("rollout-job"), "rollout/result.json"))
	must(a.t, err)
	got, want := map[string]bool{}, map[string]bool{}
	for _, o := range job.Results.All() {
		got[o.Key.Task] = true
	}
	for _, task := range tasks {
		want[task] = true
	}
	if !maps.Equal(got, want) || job.CompletedTrials != len(tasks) {
		a.t.Errorf("%d trials ran, of %v, want %v", job.CompletedTrials, got, want)
	}
}

// A label starts a run of what the pull request can affect: the tasks of the skill that it touches,
// and none if it touches only docs.
func TestALabelStartsARun(t *testing.T) {
	testenv.Long(t, "pull requests with a label in act")
	r := newRepository(t, "apple", "banana", "cherry", "damson", "elder")
	r.affects()
	base := r.commit("an agent")
	r.api.SetBranch(slug, "main", base)
	r.git("checkout", "--quiet", "-b", "change")
	write(t, r.dir, map[string]string{"skills/apple/SKILL.md": "Peel it.\n", "docs/apples.md": "Apples.\n"})
	head := r.commit("a skill", base)
	r.api.AddPull(slug, githubtest.Pull{Number: 7, HeadBranch: "change", HeadSHA: head, Base: "main"})
	skill := r.act("on-label.yml", "pull_request", labeled("evaluate", head, base, slug))
	if skill.code != 0 {
		t.Errorf("act ends with %d", skill.code)
	}
	skill.wantResults(map[string]string{"plan": "success", "shard 1/1": "success", "report": "success"})
	skill.wantTrials("apple")

	for name, event := range map[string]map[string]any{
		"another label": labeled("question", head, base, slug), "a fork": labeled("evaluate", head, base, "mallory/widgets"),
	} {
		if other := r.act("on-label.yml", "pull_request", event); other.code != 0 || other.results["plan"] == "success" {
			t.Errorf("%s: act ends with %d, and the jobs %v", name, other.code, other.results)
		}
	}

	r.git("checkout", "--quiet", "-b", "words", "main")
	write(t, r.dir, map[string]string{"docs/apples.md": "Apples and pears.\n"})
	head = r.commit("docs", base)
	r.api.AddPull(slug, githubtest.Pull{Number: 7, HeadBranch: "words", HeadSHA: head, Base: "main"})
	docs := r.act("on-label.yml", "pull_request", labeled("evaluate", head, base, slug))
	if docs.code != 0 {
		t.Errorf("act ends with %d", docs.code)
	}
	docs.wantResults(map[string]string{"plan": "success", "report": "success"})
	if got := docs.output("plan", "plan", "shards") + docs.output("report", "merge", "verdict"); got != "0pass" {
		t.Errorf("shards and verdict are %s", got)
	}
	docs.wantTrials()
}

// A group of the merge queue is evaluated, and a pull request is not.
func TestTheMergeQueue(t *testing.T) {
	testenv.Long(t, "a merge group in act")
	r := newRepository(t, "banana")
	r.affects()
	base := r.commit("an agent")
	r.api.SetBranch(slug, "main", base)
	r.git("checkout", "--quiet", "-b", "change")
	write(t, r.dir, map[string]string{"skills/apple/SKILL.md": "Peel it.\n"})
	head := r.commit("a skill", base)
	r.api.AddPull(slug, githubtest.Pull{Number: 7, HeadBranch: "change", HeadSHA: head, Base: "main"})
	before := r.act("merge-queue.yml", "pull_request", pull(head, base, slug))
	if before.code != 0 || before.results["plan"] == "success" {
		t.Errorf("act ends with %d, and the jobs %v", before.code, before.results)
	}
	before.wantResults(map[string]string{"agent": "success"})
	fork := r.act("merge-queue.yml", "pull_request", pull(head, base, "mallory/widgets"))
	if fork.code != 0 || fork.results["plan"] == "success" {
		t.Errorf("a fork: act ends with %d, and the jobs %v", fork.code, fork.results)
	}

	r.api.SetBranch(slug, "gh-readonly-queue/main/pr-7", head)
	group := func(base string) map[string]any {
		return map[string]any{
			"action": "checks_requested", "repository": map[string]any{"full_name": slug, "default_branch": "main"},
			"merge_group": map[string]any{"head_sha": head, "head_ref": "refs/heads/gh-readonly-queue/main/pr-7", "base_sha": base, "base_ref": "refs/heads/main"},
		}
	}
	good := r.act("merge-queue.yml", "merge_group", group(base))
	if good.code != 0 {
		t.Errorf("act ends with %d", good.code)
	}
	good.wantResults(map[string]string{"plan": "success", "shard 1/1": "success", "report": "success", "agent": "success"})
	good.wantTrials("apple")
	const file = "evals/job.yaml"
	write(t, r.dir, map[string]string{file: read(t, r.dir, file) + "gate: { min_pass_rate: 1 }\n"})
	head = r.commit("a stricter gate", head)
	r.api.SetBranch(slug, "gh-readonly-queue/main/pr-7", head)
	bad := r.act("merge-queue.yml", "merge_group", group(base))
	if bad.code == 0 {
		t.Errorf("act ends with %d", bad.code)
	}
	bad.wantResults(map[string]string{"plan": "success", "report": "failure"}) // act starts no job after a called workflow that failed

	// So the job of the required check runs after a job that ends as the called workflow did.
	const path = ".github/workflows/merge-queue.yml"
	workflow := read(t, r.dir, path)
	start, after, found := strings.Cut(workflow, "    uses: org/rollout-action/.github/workflows/rollout.yml@v1\n")
	_, after, ok := strings.Cut(after, "\n  agent:\n")
	if !found || !ok {
		t.Fatalf("the example has another form:\n%s", workflow)
	}
	for code, want := range map[string]string{"0": "success", "1": "failure"} {
		write(t, r.dir, map[string]string{path: start + "    runs-on: ubuntu-latest\n    steps:\n      - run: exit " + code + "\n\n  agent:\n" + after})
		r.act("merge-queue.yml", "merge_group", group(base)).wantResults(map[string]string{"evaluate": want, "agent": want})
	}
}

// Each night makes all trials, and compares with the night before. That it runs no commit of a fork
// is tested by TestOwnerOfTheChangesOfAnEvent in internal/cli.
func TestANightComparesWithTheOneBefore(t *testing.T) {
	testenv.Long(t, "two nights in act")
	const workflow = "nightly-baseline.yml"
	r := newRepository(t, "apple", "banana", "cherry", "damson", "elder")
	base := r.commit("an agent")
	r.api.SetBranch(slug, "main", base)
	event := map[string]any{"ref": "refs/heads/main", "repository": map[string]any{"full_name": slug, "default_branch": "main"}}
	first := r.act(workflow, "schedule", event)
	if first.code != 0 {
		t.Fatalf("the first night ends with %d", first.code)
	}
	run := r.api.AddRun(slug, githubtest.Run{WorkflowFile: workflow, Branch: "main", SHA: base, Event: "schedule"})
	_, err := r.api.AddArtifact(slug, run, githubtest.Artifact{Name: "rollout-nightly", Files: map[string]string{"result.json": read(t, first.artifact("rollout-nightly"), "result.json")}})
	must(t, err)
	write(t, r.dir, map[string]string{"README.md": "Fruit.\n"})
	r.api.SetBranch(slug, "main", r.commit("a day", base))
	second := r.act(workflow, "schedule", event)
	if second.code != 0 {
		t.Errorf("the second night ends with %d", second.code)
	}
	if text := second.summary("evaluate"); !strings.Contains(text, "Compared with main at `"+base[:7]+"`") || !strings.Contains(text, "15 trials") {
		t.Errorf("the summary names no night before, or not all trials:\n%s", text)
	}
	job, _, err := result.ReadJob(filepath.Join(second.artifact("rollout-nightly"), "result.json"))
	must(t, err)
	if job.CompletedTrials != 15 || job.ReusedTrials != 0 {
		t.Errorf("%d trials ran, and %d were taken over", job.CompletedTrials-job.ReusedTrials, job.ReusedTrials)
	}
}

// askGitHub replaces GitHub's command gh: it supports "gh api PATH --jq FILTER".
const askGitHub = `#!/bin/bash
set -euo pipefail
test -n "$GH_TOKEN" && test "$1 $3" = "api --jq"
curl --silent --show-error --fail --header "Authorization: Bearer $GH_TOKEN" "$GITHUB_API_URL/$2" | jq --raw-output "$4"
`

// commented returns the event of a comment on pull request 7.
func commented(who, text string) map[string]any {
	return map[string]any{
		"action": "created", "repository": map[string]any{"full_name": slug, "default_branch": "main"},
		"issue":   map[string]any{"number": 7, "pull_request": map[string]any{"url": "x"}},
		"comment": map[string]any{"body": text, "user": map[string]any{"login": who}},
	}
}

// A comment of somebody who may write starts a run that is compared with the base of the pull
// request. A fork's commit runs only if the comment names it.
func TestACommentStartsARun(t *testing.T) {
	testenv.Long(t, "comments in act")
	for _, tool := range []string{"curl", "jq"} {
		if _, err := exec.LookPath(tool); err != nil {
			testenv.Lacks(t, "act", tool)
		}
	}
	bin := t.TempDir()
	testprogram.Write(t, filepath.Join(bin, "gh"), askGitHub)
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	r := newRepository(t, "apple", "banana")
	for _, task := range []string{"cherry", "damson", "elder"} {
		must(t, os.RemoveAll(filepath.Join(r.dir, "evals/tasks", task)))
	}
	r.git("add", "--all")
	r.git("commit", "--quiet", "--message", "an agent")
	r.git("checkout", "--quiet", "-b", "release")
	r.git("commit", "--quiet", "--allow-empty", "--message", "a release")
	release := r.git("rev-parse", "HEAD")
	r.api.Mirror(t, slug, r.dir)
	push := r.act("on-comment.yml", "push", map[string]any{"ref": "refs/heads/release", "after": release, "repository": map[string]any{"full_name": slug, "default_branch": "main"}})
	push.wantResults(map[string]string{"plan": "success", "shard 1/2": "success", "shard 2/2": "success", "report": "success"})
	run := r.api.AddRun(slug, githubtest.Run{WorkflowFile: "on-comment.yml", Branch: "release", SHA: release})
	_, err := r.api.AddArtifact(slug, run, githubtest.Artifact{Name: "rollout-result", Files: map[string]string{"result.json": read(t, push.artifact("rollout-result"), "result.json")}})
	must(t, err)

	r.git("checkout", "--quiet", "-b", "change")
	r.git("commit", "--quiet", "--allow-empty", "--message", "a change")
	head := r.git("rev-parse", "HEAD")
	r.git("checkout", "--quiet", "-b", "hidden/change")
	r.git("commit", "--quiet", "--allow-empty", "--message", "a fork's change")
	foreign := r.git("rev-parse", "HEAD")
	r.git("checkout", "--quiet", "main") // where comments run
	r.api.Mirror(t, slug, r.dir)
	r.api.SetPermission(slug, "alice", "write")
	r.api.AddPull(slug, githubtest.Pull{Number: 7, HeadBranch: "change", HeadSHA: head, Base: "release"})
	good := r.act("on-comment.yml", "issue_comment", commented("alice", "/evaluate"))
	if good.code != 0 {
		t.Errorf("act ends with %d", good.code)
	}
	good.wantResults(map[string]string{"ask": "success", "plan": "success", "report": "success"})
	good.wantTrials("apple", "banana")
	comments := r.api.Comments(slug, 7)
	if len(comments) != 1 || !strings.Contains(comments[0].Body, "release at `"+release[:7]) && !strings.Contains(comments[0].Body, release[:7]) || !strings.Contains(comments[0].Body, head[:7]) {
		t.Errorf("the comments are %+v, want one about %s and %s", comments, release, head)
	}
	// The reusable workflow takes trials over by default (reuse: baseline), and nothing changed.
	if text := "has changed since `" + release[:7] + "`: 0 of 2 trials ran."; !strings.Contains(comments[0].Body, text) {
		t.Errorf("the comment does not say %q:\n%s", text, comments[0].Body)
	}
	first := ""
	for _, q := range r.api.Requests() {
		if q.Method == http.MethodPost && strings.HasSuffix(q.Path, "/issues/7/comments") {
			first += q.Body
		}
	}
	for _, want := range []string{"Evaluating [`" + head[:7], "This would run", "at most 2 trials of 2 tasks in 2 shards", "`apple`, `banana`", "Time: at most about", "Perhaps 2 more are taken from it", release[:7]} {
		if !strings.Contains(first, want) {
			t.Errorf("the first comment does not say %q:\n%s", want, first)
		}
	}

	r.api.AddPull(slug, githubtest.Pull{Number: 7, HeadRepo: "mallory/widgets", HeadBranch: "change", HeadSHA: foreign, Base: "release"})
	for name, c := range map[string]struct {
		event   map[string]any
		results map[string]string
	}{
		"somebody who may not write":      {commented("mallory", "/evaluate"), map[string]string{"ask": "success", "refused": ""}},
		"a fork without its commit":       {commented("alice", "/evaluate"), map[string]string{"ask": "success", "refused": "failure"}},
		"another commit than the head":    {commented("alice", "/evaluate "+head), map[string]string{"ask": "success", "refused": "failure"}},
		"a few digits of the commit":      {commented("alice", "/evaluate "+foreign[:12]), map[string]string{"ask": "success", "refused": "failure"}},
		"text that a shell would run":     {commented("alice", "/evaluate $(touch "+bin+"/ran) `touch "+bin+"/ran`\"; touch "+bin+"/ran"), map[string]string{"refused": "failure"}},
		"a comment that asks for nothing": {commented("alice", "please /evaluate"), map[string]string{"ask": ""}},
		"the commit, by somebody else":    {commented("mallory", "/evaluate "+foreign), map[string]string{"ask": "success", "refused": ""}},
	} {
		a := r.act("on-comment.yml", "issue_comment", c.event)
		a.wantResults(c.results)
		if a.results["plan"] != "" {
			t.Errorf("%s: the jobs are %v", name, a.results)
		}
	}
	if _, err := os.Stat(filepath.Join(bin, "ran")); err == nil {
		t.Error("a shell has run the text of a comment")
	}
	named := r.act("on-comment.yml", "issue_comment", commented("alice", "/evaluate "+foreign))
	if named.code != 0 {
		t.Errorf("act ends with %d", named.code)
	}
	named.wantResults(map[string]string{"ask": "success", "plan": "success", "report": "success"})
}
