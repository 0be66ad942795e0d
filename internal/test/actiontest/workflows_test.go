package actiontest

import (
	"archive/zip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/githubtest"
	"github.com/org/rollout-action/internal/test/testenv"
)

func unzip(t *testing.T, path, dir string) {
	t.Helper()
	archive, err := zip.OpenReader(path)
	must(t, err)
	defer archive.Close()
	for _, f := range archive.File {
		if f.FileInfo().IsDir() {
			continue
		}
		if !filepath.IsLocal(f.Name) {
			t.Fatalf("%s is not below the directory", f.Name)
		}
		r, err := f.Open()
		must(t, err)
		content, err := io.ReadAll(r)
		must(t, err)
		write(t, dir, map[string]string{f.Name: string(content)})
	}
}

// pull returns the payload of a pull request event.
func pull(head, base, headRepo string) map[string]any {
	repo := func(name string) map[string]any {
		return map[string]any{"full_name": name, "fork": name != slug}
	}
	return map[string]any{
		"action": "synchronize", "number": 7, "repository": repo(slug),
		"pull_request": map[string]any{
			"number": 7, "state": "open",
			"head": map[string]any{"sha": head, "ref": "change", "repo": repo(headRepo)},
			"base": map[string]any{"sha": base, "ref": "main", "repo": repo(slug)},
		},
	}
}

// confirms makes the repository's job retry the tasks that look broken.
func (r *repository) confirms() {
	r.t.Helper()
	const file = "evals/job.yaml"
	write(r.t, r.dir, map[string]string{file: read(r.t, r.dir, file) + "gate: { confirm: { attempts: 2 } }\n"})
}

// The ten lines of the README: a push creates a baseline, and a pull request that breaks the agent
// gets a comment. The shards have retried the tasks that they broke.
func TestTheGateOnAPullRequest(t *testing.T) {
	testenv.Long(t, "pull requests in act")
	r := newRepository(t, "apple", "banana", "cherry", "damson", "elder")
	r.confirms()
	base := r.commit("an agent")
	r.api.SetBranch(slug, "main", base)
	push := r.act("pr-gate.yml", "push", map[string]any{"ref": "refs/heads/main", "repository": map[string]any{"full_name": slug}})
	if push.code != 0 {
		t.Errorf("act ends with %d", push.code)
	}
	push.wantResults(map[string]string{"plan": "success", "shard 1/4": "success", "shard 2/4": "success", "shard 3/4": "success", "shard 4/4": "success", "report": "success"})
	for name, want := range map[string]string{"verdict": "pass", "pass-rate": "1", "broken": ""} {
		if got := push.output("report", "merge", name); got != want {
			t.Errorf("on main the output %s is %q, want %q", name, got, want)
		}
	}
	baseline := push.artifact("rollout-result")
	job, _, err := result.ReadJob(filepath.Join(baseline, "result.json"))
	must(t, err)
	if job.CompletedTrials != 5 || job.SkippedTrials != 0 {
		t.Errorf("the baseline is %+v", job)
	}
	run := r.api.AddRun(slug, githubtest.Run{WorkflowFile: "pr-gate.yml", Branch: "main", SHA: base})
	_, err = r.api.AddArtifact(slug, run, githubtest.Artifact{Name: "rollout-result", Files: map[string]string{"result.json": read(t, baseline, "result.json")}})
	must(t, err)

	suite(t, r.dir) // knows none of the five any more: fewer could be chance
	r.confirms()
	head := r.commit("a worse agent", base)
	r.api.AddPull(slug, githubtest.Pull{Number: 7, HeadBranch: "change", HeadSHA: head, Base: "main"})
	worse := r.act("pr-gate.yml", "pull_request", pull(head, base, slug))
	if worse.code != 1 {
		t.Errorf("act ends with %d, want 1", worse.code)
	}
	worse.wantResults(map[string]string{"plan": "success", "shard 1/4": "success", "shard 4/4": "success", "report": "failure"})
	for name, want := range map[string]string{"verdict": "fail", "pass-rate": "0", "broken": "5", "fixed": "0", "result-path": "rollout-jobs/rollout/result.json", "junit-path": "rollout-jobs/rollout/junit.xml"} {
		if got := worse.output("report", "merge", name); got != want {
			t.Errorf("the output %s is %q, want %q", name, got, want)
		}
	}
	comments := r.api.Comments(slug, 7)
	if len(comments) != 1 {
		t.Fatalf("there are %d comments, want one", len(comments))
	}
	for _, text := range []string{worse.summary("report"), comments[0].Body} {
		for _, want := range []string{"banana", "cherry", "damson", "elder", base[:7], "5 tasks looked broken and had 10 further attempts (gate.confirm), which enter no rate"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s is not in:\n%s", want, text)
			}
		}
		if n := strings.Count(text, "1 → 0; confirmed broken: passed 0 of 2 more attempts") + strings.Count(text, "1 → 0; again 0/2"); n != 5 {
			t.Errorf("%d tasks are confirmed to be broken, want 5:\n%s", n, text)
		}
	}
	report := worse.artifact("rollout-job")
	if text := read(t, report, "rollout/junit.xml"); !strings.Contains(text, `name="damson"`) || strings.Count(text, `(confirmed broken: passed 0 of 2 more attempts)" type="reward"`) != 5 || !strings.Contains(text, `tests="5" failures="5"`) {
		t.Errorf("the JUnit report does not say what broke:\n%s", text)
	}
	if n := strings.Count(worse.log, "confirmed broken: passed 0 of 2 more attempts"); n < 5 {
		t.Errorf("the log says of %d tasks that they are confirmed to be broken", n)
	}
	confirmed, _, err := result.ReadJob(filepath.Join(report, "rollout/result.json"))
	must(t, err)
	if confirmed.TotalTrials != 5 || confirmed.ConfirmationTrials != 10 || confirmed.Results.Len() != 5 {
		t.Errorf("the job is %+v", confirmed.Summary)
	}
	if strings.Contains(push.said("shard 1/4")+worse.said("shard 1/4"), "model-secret") {
		t.Error("the secret is in the log")
	}
}

// A shard that never ran does not count as a success.
func TestAMissingShardIsNamed(t *testing.T) {
	testenv.Long(t, "a job with shards in act")
	r := newRepository(t, "apple", "banana", "cherry", "damson", "elder")
	r.api.SetBranch(slug, "main", r.commit("an agent"))
	a := r.act("pr-matrix.yml", "push", map[string]any{"ref": "refs/heads/main", "repository": map[string]any{"full_name": slug}},
		"--matrix", "shard:1/4", "--matrix", "shard:2/4", "--matrix", "shard:4/4")
	if a.code != 1 {
		t.Errorf("act ends with %d, want 1", a.code)
	}
	a.wantResults(map[string]string{"plan": "success", "run 1/4": "success", "run 2/4": "success", "run 4/4": "success", "report": "failure"})
	if got := a.output("report", "merge", "verdict"); got != "incomplete" {
		t.Errorf("the verdict is %q", got)
	}
	if text := a.summary("report"); !strings.Contains(text, "3 of 4") && !strings.Contains(text, "3/4") {
		t.Errorf("the summary does not name the missing shard:\n%s", text)
	}
	if matrix := a.output("plan", "plan", "matrix"); !strings.HasPrefix(matrix, `{"include":[{"shard":"1/4","index":1,"total":4,"name":"1-of-4"`) {
		t.Errorf("the matrix is %s", matrix)
	}
	// The artifact contains files with odd names of a trial under names that it accepts.
	odd, err := filepath.Glob(filepath.Join(a.artifact("rollout-job"), "agent/solver/tasks/*/logs/agent/*/*.log"))
	must(t, err)
	if len(odd) < 3 {
		t.Errorf("%d odd names are in the artifact", len(odd))
	}
	for _, path := range odd {
		if strings.ContainsAny(filepath.Base(path)+filepath.Base(filepath.Dir(path)), `":<>|*?`) {
			t.Errorf("%q is in the artifact", path)
		}
	}
}

// A fork's change runs without secrets; a workflow that executes none of its code reports the
// result.
func TestWorkflowRunReportsOnAFork(t *testing.T) {
	testenv.Long(t, "a pull request from a fork in act")
	r := newRepository(t)
	base := r.commit("an agent")
	r.api.SetBranch(slug, "main", base)
	write(t, r.dir, map[string]string{"evals/tasks/apple/instruction.md": "Bring me a red apple .\n"})
	head := r.commit("a fork's change", base)
	r.api.AddPull(slug, githubtest.Pull{Number: 7, HeadRepo: "mallory/widgets", HeadBranch: "change", HeadSHA: head, Base: "main"})
	first := r.act("fork-run.yml", "pull_request", pull(head, base, "mallory/widgets"), "--secret", "GITHUB_TOKEN="+githubtest.ReadToken)
	if first.code != 0 {
		t.Errorf("act ends with %d", first.code)
	}
	if n := len(r.api.Comments(slug, 7)); n != 0 {
		t.Errorf("%d comments were made with a token that may only read", n)
	}
	left, err := filepath.Glob(filepath.Join(first.artifacts, "*", "rollout-job", "rollout-job.zip"))
	must(t, err)
	if len(left) != 1 {
		t.Fatal("the run has left no artifact")
	}
	content, err := os.ReadFile(left[0])
	must(t, err)
	run := r.api.AddRun(slug, githubtest.Run{WorkflowFile: "fork-run.yml", Branch: "change", SHA: head, Event: "pull_request", HeadRepo: "mallory/widgets"})
	_, err = r.api.AddArtifact(slug, run, githubtest.Artifact{Name: "rollout-job", Zip: content})
	must(t, err)

	second := r.act("fork-report.yml", "workflow_run", map[string]any{
		"action": "completed", "repository": map[string]any{"full_name": slug},
		"workflow_run": map[string]any{
			"id": run, "event": "pull_request", "conclusion": "success", "head_sha": head, "head_branch": "change", "pull_requests": []any{},
			"head_repository": map[string]any{"full_name": "mallory/widgets", "fork": true, "owner": map[string]any{"login": "mallory"}},
		},
	})
	if second.code != 0 {
		t.Errorf("act ends with %d", second.code)
	}
	if n := len(r.api.Comments(slug, 7)); n != 1 {
		t.Errorf("there are %d comments, want one", n)
	}
	if !strings.Contains(second.summary("report"), "oracle") {
		t.Errorf("the summary does not name the agent:\n%s", second.summary("report"))
	}
}

// Each of the other examples runs as it is.
func TestOtherExampleWorkflowsAreValid(t *testing.T) {
	testenv.Long(t, "all example workflows in act")
	r := newRepository(t, "apple", "banana", "cherry", "damson", "elder")
	r.api.SetBranch(slug, "main", r.commit("an agent"))
	for _, c := range []struct {
		workflow, event string
		results         map[string]string
		artifacts       []string
	}{
		{"pr-single.yml", "push", map[string]string{"evaluate": "success"}, []string{"rollout-result"}},
		{"nightly-baseline.yml", "schedule", map[string]string{"evaluate": "success"}, []string{"rollout-nightly", "rollout-nightly-job"}},
		{"model-matrix.yml", "push", map[string]string{"evaluate small": "success", "evaluate large": "success"}, []string{"rollout-result-small", "rollout-result-large"}},
	} {
		t.Run(c.workflow, func(t *testing.T) {
			sub := *r
			sub.t = t
			a := sub.act(c.workflow, c.event, map[string]any{"ref": "refs/heads/main", "repository": map[string]any{"full_name": slug}})
			r.runs = sub.runs
			if a.code != 0 {
				t.Errorf("act ends with %d", a.code)
			}
			a.wantResults(c.results)
			for _, name := range c.artifacts {
				a.artifact(name)
			}
			for job := range c.results {
				if !strings.Contains(a.summary(job), "solver") {
					t.Errorf("the summary of %s does not name the agent:\n%s", job, a.summary(job))
				}
			}
		})
	}
}

// A repository of tasks: all are proven at night, and a pull request gets a report of the one that
// it breaks.
func TestTasksAreProven(t *testing.T) {
	testenv.Long(t, "a proof in act")
	r := newRepository(t)
	base := r.commit("tasks")
	r.api.SetBranch(slug, "main", base)
	all := r.act("dataset.yml", "workflow_dispatch", map[string]any{"ref": "refs/heads/main", "repository": map[string]any{"full_name": slug}})
	if all.code != 0 {
		t.Errorf("act ends with %d", all.code)
	}
	all.wantResults(map[string]string{"all 1/2": "success", "all 2/2": "success"})
	for job, want := range map[string]string{"all 1/2": "3 of 3 proven", "all 2/2": "2 of 2 proven"} {
		if text := all.summary(job); !strings.Contains(text, want) {
			t.Errorf("the summary of %s does not say %s:\n%s", job, want, text)
		}
	}

	r.git("checkout", "--quiet", "-b", "change")
	write(t, r.dir, map[string]string{"evals/tasks/cherry/tests/test.sh": "#!/bin/bash\necho 1 > /logs/verifier/reward.txt\n"})
	head := r.commit("a test that tests nothing", base)
	r.api.AddPull(slug, githubtest.Pull{Number: 7, HeadBranch: "change", HeadSHA: head, Base: "main"})
	changed := r.act("dataset.yml", "pull_request", pull(head, base, slug))
	if changed.code != 1 {
		t.Errorf("act ends with %d, want 1", changed.code)
	}
	changed.wantResults(map[string]string{"changed": "failure"})
	text := changed.summary("changed")
	for _, want := range []string{"0 of 1 proven, 1 trivial", "cherry", "nop-passes", "1 of 5 tasks changed since main"} {
		if !strings.Contains(text, want) {
			t.Errorf("the summary does not say %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "apple") {
		t.Errorf("a task that did not change was run:\n%s", text)
	}
	if !strings.Contains(read(t, changed.artifact("tasks"), "junit.xml"), `<testcase name="cherry" classname="validate.tasks"`) {
		t.Error("the JUnit report does not name the task")
	}
}

// The caller's own steps run before and after each shard, on machines given as JSON.
func TestOwnStepsInTheReusableWorkflow(t *testing.T) {
	testenv.Long(t, "the reusable workflow in act")
	r := newRepository(t, "apple", "banana", "cherry", "damson", "elder")
	step := func(run string) string {
		return "name: x\nruns:\n  using: composite\n  steps:\n    - shell: bash\n      run: " + run + "\n"
	}
	write(t, r.dir, map[string]string{
		".github/actions/before/action.yml": step("exit 1 # the event's own commit has another one"),
		".github/actions/after/action.yml":  step(`ls rollout-jobs/*/plan.json && echo "it comes after the trials"`),
		".github/workflows/own.yml": `name: own
on: push
jobs:
  evaluate:
    uses: org/rollout-action/.github/workflows/rollout.yml@v1
    with:
      job: evals/job.yaml
      shards: '2'
      baseline: none
      comment: 'off'
      runs-on: '["ubuntu-latest"]'
      ref: known
      before: .github/actions/before
      after: .github/actions/after
`,
	})
	write(t, r.dir, map[string]string{".rollout-steps/before/action.yml": step("exit 1 # put where the workflow puts its own")})
	r.commit("an agent that solves everything")
	r.git("branch", "known")
	must(t, os.RemoveAll(filepath.Join(r.dir, ".rollout-steps")))
	suite(t, r.dir) // and one that solves nothing
	write(t, r.dir, map[string]string{".github/actions/before/action.yml": step("echo \"it comes before the trials\" && test ! -e rollout-jobs && echo MODEL_API_KEY=model-secret >> \"$GITHUB_ENV\"")})
	r.api.SetBranch(slug, "main", r.commit("main"))
	known := r.git("rev-parse", "known")
	r.api.SetBranch(slug, "known", known)
	a := r.act("own.yml", "push", map[string]any{"ref": "refs/heads/main", "repository": map[string]any{"full_name": slug}})
	if a.code != 0 {
		t.Errorf("act ends with %d", a.code)
	}
	a.wantResults(map[string]string{"plan": "success", "shard 1/2": "success", "shard 2/2": "success", "report": "success"})
	if got := a.output("report", "merge", "pass-rate"); got != "1" {
		t.Errorf("the pass rate is %s: not the ref was evaluated", got)
	}
	if page := read(t, a.artifact("rollout-page"), "rollout.html"); !strings.HasPrefix(page, "<!doctype html>") || !strings.Contains(page, "damson") {
		t.Errorf("the page does not show the job:\n%.300s", page)
	}
	for _, job := range []string{"shard 1/2", "shard 2/2"} {
		said := a.said(job)
		before, after := strings.Index(said, "it comes before the trials"), strings.LastIndex(said, "it comes after the trials")
		if before < 0 || after < before {
			t.Errorf("%s said:\n%s", job, said)
		}
	}
}
