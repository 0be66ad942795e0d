package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/run/trial"
	"github.com/org/rollout-action/internal/test/githubtest"
)

const (
	mainCommit = "1111111111111111111111111111111111111111"
	headCommit = "2222222222222222222222222222222222222222"
	// mergeCommit is what GitHub makes of both for pull requests.
	mergeCommit = "3333333333333333333333333333333333333333"
)

// aPull is a step of a workflow on pull request 7 of acme/widgets, with a finished job in its
// workspace.
type aPull struct {
	t      *testing.T
	dir    string
	github *githubtest.Server
	env    map[string]string
	soft   context.Context // nil: the test's
	asked  func()          // is called when the command asks for the time; nil: nothing is
	stdout bytes.Buffer
	stderr bytes.Buffer
}

// newPull has a head whose task "falls" fell, and a result of main in which it had passed.
func newPull(t *testing.T) *aPull {
	t.Helper()
	p := &aPull{t: t, dir: t.TempDir(), github: githubtest.New(t)}
	g := p.github
	g.AddRepo("acme/widgets")
	g.AddCommit("acme/widgets", mainCommit)
	g.AddCommit("acme/widgets", headCommit, mainCommit)
	g.AddCommit("acme/widgets", mergeCommit, mainCommit, headCommit)
	g.SetBranch("acme/widgets", "main", mainCommit)
	g.AddPull("acme/widgets", githubtest.Pull{Number: 7, HeadBranch: "change", HeadSHA: headCommit, Base: "main"})

	p.writeJob("base", map[string]float64{"falls": 1, "stays": 1})
	result, err := os.ReadFile(filepath.Join(p.dir, "base", "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	run := g.AddRun("acme/widgets", githubtest.Run{ID: 44, WorkflowFile: "agent.yml", Branch: "main", SHA: mainCommit})
	if _, err := g.AddArtifact("acme/widgets", run, githubtest.Artifact{Name: "rollout-result", Files: map[string]string{"result.json": string(result)}}); err != nil {
		t.Fatal(err)
	}
	p.writeJob("pr", map[string]float64{"falls": 0, "stays": 1})

	p.event("acme/widgets")
	p.env = map[string]string{
		"GITHUB_ACTIONS": "true", "GITHUB_REPOSITORY": "acme/widgets", "GITHUB_EVENT_NAME": "pull_request",
		"GITHUB_EVENT_PATH": filepath.Join(p.dir, "event.json"), "GITHUB_API_URL": g.URL, "GITHUB_SERVER_URL": "https://github.com",
		"GITHUB_SHA": mergeCommit, "GITHUB_REF": "refs/pull/7/merge", "GITHUB_BASE_REF": "main", "GITHUB_HEAD_REF": "change",
		"GITHUB_RUN_ID": "42", "GITHUB_RUN_NUMBER": "9", "GITHUB_RUN_ATTEMPT": "1", "GITHUB_WORKFLOW_REF": "acme/widgets/.github/workflows/agent.yml@refs/pull/7/merge",
		"GITHUB_OUTPUT": filepath.Join(p.dir, "output"), "GITHUB_STEP_SUMMARY": filepath.Join(p.dir, "summary"), "GITHUB_TOKEN": githubtest.WriteToken,
	}
	return p
}

// event writes the event of the pull request, whose head is in a repository.
func (p *aPull) event(head string) {
	text := fmt.Sprintf(`{"pull_request": {"number": 7,
		"head": {"sha": %q, "ref": "change", "repo": {"full_name": %q, "fork": %t}}, "base": {"ref": "main"}},
		"repository": {"full_name": "acme/widgets", "default_branch": "main"}}`, headCommit, head, head != "acme/widgets")
	p.write("event.json", []byte(text))
}

func (p *aPull) write(name string, data []byte) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), data, 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// writeJob makes the directory of a job in which an agent tried tasks once.
func (p *aPull) writeJob(name string, rewards map[string]float64) {
	p.t.Helper()
	commit, parents := mergeCommit, []string{mainCommit, headCommit}
	if name == "base" {
		commit, parents = mainCommit, nil
	}
	plan := result.Plan{Commit: &commit, Parents: parents, JobName: "agent", Digest: "sha256:1", StartedAt: time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC), Metrics: []string{"mean"}}
	for _, task := range []string{"falls", "stays"} {
		plan.Tasks = append(plan.Tasks, result.PlannedTask{Dataset: "d", Task: task, Digest: "sha256:t", Path: "evals/" + task})
		plan.Trials.Append(result.Key{Agent: "a", Dataset: "d", Task: task, Attempt: 1})
	}
	tree, err := job.Create(filepath.Join(p.dir, name), config.Job{Name: "agent"}, plan)
	if err != nil {
		p.t.Fatal(err)
	}
	defer tree.Close()
	var trials []result.Trial
	for _, key := range plan.Trials.All() {
		done := result.Trial{Key: key, Reward: new(rewards[key.Task]), TaskDigest: "sha256:t"}
		trials = append(trials, done)
		if err := tree.WriteTrial(trial.Outcome{Trial: done}); err != nil {
			p.t.Fatal(err)
		}
	}
	if err := tree.WriteJob(result.Summarize(plan, trials)); err != nil {
		p.t.Fatal(err)
	}
	// As written by hand, config.json lacks the defaults of a gate.
	text, err := json.Marshal(map[string]any{"gate": map[string]any{"max_broken_tasks": 0, "noise": "ignore"}})
	if err != nil {
		p.t.Fatal(err)
	}
	p.write(filepath.Join(name, "config.json"), text)
}

// rollout runs a command line and wants an exit code.
func (p *aPull) rollout(code int, args ...string) {
	p.t.Helper()
	p.stdout.Reset()
	p.stderr.Reset()
	soft := p.t.Context()
	if p.soft != nil {
		soft = p.soft
	}
	got := Main(soft, p.t.Context(), Env{
		Providers: offered,
		Stdin:     strings.NewReader(""), Stdout: &p.stdout, Stderr: &p.stderr, Dir: p.dir,
		Now: func() time.Time {
			if p.asked != nil {
				p.asked()
			}
			return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		},
		Getenv: func(name string) (string, bool) { value, ok := p.env[name]; return value, ok },
	}, args)
	if got != code {
		p.t.Errorf("exit code %d, want %d\n%s%s", got, code, p.stdout.String(), p.stderr.String())
	}
}

func (p *aPull) read(name string) string {
	data, _ := os.ReadFile(filepath.Join(p.dir, name)) // "" if it is not there
	return string(data)
}

// want fails for each of parts that text lacks.
func (p *aPull) want(what, text string, parts ...string) {
	p.t.Helper()
	flat := strings.Join(strings.Fields(text), " ") // however it was broken into lines
	for _, part := range parts {
		if !strings.Contains(flat, strings.Join(strings.Fields(part), " ")) {
			p.t.Errorf("%s lacks %q:\n%s", what, part, text)
		}
	}
}

func TestReportOnAPullRequest(t *testing.T) {
	t.Parallel()
	p := newPull(t)
	p.rollout(command.ExitGate, "report", "pr", "--baseline", "github:", "--comment", "changes", "--junit", "out/junit.xml")

	p.want("stdout", p.stdout.String(), "Baseline: main at 1111111 (the base of the merge that was evaluated; run 44)", "broken    a/d/falls", "Gate: fail")
	p.want("the summary", p.read("summary"), "1 broken", "falls", "the base of the merge")
	p.want("the outputs", p.read("output"), "pass-rate", "0.5", "verdict", "fail", "broken", "result-path", "out/junit.xml")
	p.want("the log", p.stderr.String(), "::error file=evals/falls/")
	p.want("JUnit", p.read("out/junit.xml"), "<testsuites", "falls")
	comments := p.github.Comments("acme/widgets", 7)
	if len(comments) != 1 {
		t.Fatalf("there are %d comments", len(comments))
	}
	p.want("the comment", comments[0].Body, "1 broken", "falls", "actions/runs/42", headCommit[:7])

	t.Run("the next run updates its comment", func(t *testing.T) {
		p.t = t
		if err := os.RemoveAll(filepath.Join(p.dir, "pr")); err != nil {
			t.Fatal(err)
		}
		p.writeJob("pr", map[string]float64{"falls": 1, "stays": 1})
		p.env["GITHUB_RUN_ID"] = "43"
		p.rollout(command.ExitOK, "report", "pr", "--baseline", "github:", "--comment", "changes")
		comments := p.github.Comments("acme/widgets", 7)
		if len(comments) != 1 || strings.Contains(comments[0].Body, "1 broken") {
			t.Errorf("the comments are %+v", comments)
		}
	})
}

// A workflow may have checked out something else than what its run is about.
func TestReportNamesTheCommitOfAnOlderBaseline(t *testing.T) {
	t.Parallel()
	p := newPull(t)
	const foreign = "5555555555555555555555555555555555555555" // of another repository
	other := strings.ReplaceAll(p.read("base/result.json"), mainCommit, foreign)
	run := p.github.AddRun("acme/widgets", githubtest.Run{ID: 40, WorkflowFile: "other.yml", Branch: "main", SHA: mainCommit})
	if _, err := p.github.AddArtifact("acme/widgets", run, githubtest.Artifact{Name: "rollout-result", Files: map[string]string{"result.json": other}}); err != nil {
		t.Fatal(err)
	}
	p.rollout(command.ExitGate, "report", "pr", "--baseline", "github:", "--baseline-workflow", "other.yml", "--comment", "off")
	p.want("stdout", p.stdout.String(), "run 40), whose results are of commit "+host.ShortCommit(foreign))
	p.rollout(command.ExitGate, "report", "pr", "--baseline", "github:", "--comment", "off")
	if strings.Contains(p.stdout.String(), "whose results") {
		t.Error(p.stdout.String())
	}
}

// Somebody may start the workflow on main for the branch of the pull request.
func TestARunOfTheChangeItselfIsNotItsBaseline(t *testing.T) {
	t.Parallel()
	p := newPull(t)
	own := strings.ReplaceAll(p.read("base/result.json"), mainCommit, headCommit)
	run := p.github.AddRun("acme/widgets", githubtest.Run{ID: 46, Event: "workflow_dispatch", WorkflowFile: "other.yml", Branch: "main", SHA: mainCommit})
	if _, err := p.github.AddArtifact("acme/widgets", run, githubtest.Artifact{Name: "rollout-result", Files: map[string]string{"result.json": own}}); err != nil {
		t.Fatal(err)
	}
	p.rollout(command.ExitOK, "report", "pr", "--baseline", "github:", "--baseline-workflow", "other.yml", "--comment", "off")
	p.want("stdout", p.stdout.String(), "run 46: the run evaluated another commit: somebody started it on 1111111, but its result is of 2222222")
}

// A gate may ask for several runs of the base branch. Those of another job are left out, and named.
func TestReportComparesWithSeveralRuns(t *testing.T) {
	t.Parallel()
	p := newPull(t)
	for id, change := range map[int64][2]string{
		43: {"2026-01-02T03", "2026-01-01T03"},
		42: {`"attempt": 1`, `"attempt": 2`},
		41: {"2026-01-02T03", "2025-12-31T03"},
		40: {"2026-01-02T03", "2025-12-30T03"},
	} {
		text := strings.ReplaceAll(p.read("base/result.json"), change[0], change[1])
		run := p.github.AddRun("acme/widgets", githubtest.Run{ID: id, WorkflowFile: "agent.yml", Branch: "main", SHA: mainCommit})
		if _, err := p.github.AddArtifact("acme/widgets", run, githubtest.Artifact{Name: "rollout-result", Files: map[string]string{"result.json": text}}); err != nil {
			t.Fatal(err)
		}
	}
	p.env["GITHUB_RUN_ID"] = "100"
	var stored map[string]any
	if err := json.Unmarshal([]byte(p.read("pr/config.json")), &stored); err != nil {
		t.Fatal(err)
	}
	stored["gate"] = map[string]any{"max_broken_tasks": 0, "baseline": map[string]any{"pool": 3}}
	text, err := json.Marshal(stored)
	if err != nil {
		t.Fatal(err)
	}
	p.write("pr/config.json", text)
	p.rollout(0, "report", "pr", "--baseline", "github:", "--comment", "always")
	const sentence = "together with 2 earlier runs: 1111111, 1111111; left out: 1111111 (it has other tasks, agents or attempts)"
	p.want("stdout", p.stdout.String(), "run 44), "+sentence, "inconclusive")
	p.want("the comment", strings.ReplaceAll(p.github.Comments("acme/widgets", 7)[0].Body, "`", ""), "together with 2 earlier runs")
	p.want("verdict.json", p.read("pr/verdict.json"), `"runs": [`, "exact relabelling of runs")
}

// The comment and the summary lead to the page that the run keeps.
func TestCommentLinksToThePage(t *testing.T) {
	t.Parallel()
	p := newPull(t)
	p.rollout(command.ExitGate, "report", "pr", "--baseline", "github:", "--comment", "always", "--html", "rollout-page/evals.html")
	link := "[page](https://github.com/acme/widgets/actions/runs/42#artifacts) `evals.html` among the artifacts"
	p.want("the comment", p.github.Comments("acme/widgets", 7)[0].Body, link)
	p.want("the summary", p.read("summary"), link)
	if !strings.Contains(p.read("rollout-page/evals.html"), "</html>") {
		t.Error("the page is missing")
	}
	p.rollout(command.ExitGate, "report", "pr", "--baseline", "github:", "--comment", "always", "--html", "pages/evals.html") // which no step may upload
	text := p.github.Comments("acme/widgets", 7)[0].Body
	p.want("the comment", text, "page `pages/evals.html` on the machine of the run")
	if strings.Contains(text, "among the artifacts") {
		t.Errorf("the comment is %s", text)
	}
}

// The results that main's runs left are a history, too.
func TestHistoryOnGitHub(t *testing.T) {
	t.Parallel()
	p := newPull(t)
	older := strings.ReplaceAll(p.read("base/result.json"), "2026-01-02T03", "2026-01-01T03")
	run := p.github.AddRun("acme/widgets", githubtest.Run{ID: 40, WorkflowFile: "agent.yml", Branch: "main", SHA: mainCommit})
	if _, err := p.github.AddArtifact("acme/widgets", run, githubtest.Artifact{Name: "rollout-result", Files: map[string]string{"result.json": older}}); err != nil {
		t.Fatal(err)
	}
	p.rollout(0, "history", "--history", "github:")
	p.want("stdout", p.stdout.String(), "2026-01-01")
	p.want("stdout", p.stdout.String(), "2026-01-02")
	p.rollout(0, "history", "--history", "github:main", "-n", "1")
	if strings.Contains(p.stdout.String(), "2026-01-01") {
		t.Error(p.stdout.String())
	}
	if strings.Contains(p.stdout.String(), "inconclusive") {
		t.Error(p.stdout.String())
	}
	p.addJudgedResult(strings.ReplaceAll(p.read("base/result.json"), "2026-01-02T03", "2026-01-03T03"))
	p.rollout(0, "history", "--history", "github:main", "-n", "1")
	p.want("stdout", p.stdout.String(), "2026-01-03", "inconclusive")
	p.rollout(0, "history", "--history", "github:main", "--baseline-artifact", "none")
	p.want("stderr", p.stderr.String(), `no run of agent.yml on main has an artifact "none"`)
	delete(p.env, "GITHUB_ACTIONS")
	p.rollout(2, "history", "--history", "github:main")
	p.want("stderr", p.stderr.String(), "only in a workflow")
}

// addJudgedResult adds a run on main whose artifact has a result and its verdict, inconclusive.
func (p *aPull) addJudgedResult(text string) {
	p.t.Helper()
	dir := p.t.TempDir()
	files := map[string]string{"result.json": text}
	err := os.WriteFile(filepath.Join(dir, "result.json"), []byte(text), 0o600)
	if err == nil {
		var v result.Verdict[gate.Verdict]
		v.Gate.Outcome = gate.Inconclusive
		if v.ResultDigest, err = result.DigestOfResult(dir); err == nil {
			err = result.WriteVerdict(dir, v)
		}
	}
	if err != nil {
		p.t.Fatal(err)
	}
	verdict, err := os.ReadFile(filepath.Join(dir, "verdict.json"))
	files["verdict.json"] = string(verdict)
	if err == nil {
		run := p.github.AddRun("acme/widgets", githubtest.Run{ID: 45, WorkflowFile: "agent.yml", Branch: "main", SHA: mainCommit})
		_, err = p.github.AddArtifact("acme/widgets", run, githubtest.Artifact{Name: "rollout-result", Files: files})
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

func TestWithoutTheRightToComment(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, note string
		change     func(*aPull)
	}{
		{"from a fork", "of a fork", func(p *aPull) { p.event("stranger/widgets"); p.env["GITHUB_TOKEN"] = githubtest.ReadToken }},
		{"with a token that only reads", "the token may not write", func(p *aPull) { p.env["GITHUB_TOKEN"] = githubtest.ReadToken }},
		{"without a token", "there is no token", func(p *aPull) { delete(p.env, "GITHUB_TOKEN") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newPull(t)
			tc.change(p)
			p.rollout(command.ExitGate, "report", "pr", "--baseline", "base", "--comment", "always")
			p.want("the summary", p.read("summary"), "1 broken", tc.note)
			p.want("stdout", p.stdout.String(), tc.note)
			p.want("the outputs", p.read("output"), "verdict")
			if got := p.github.Comments("acme/widgets", 7); len(got) != 0 {
				t.Errorf("the comments are %+v", got)
			}
		})
	}
}

func TestWithoutABaselineNothingFails(t *testing.T) {
	t.Parallel()
	p := newPull(t)
	p.rollout(command.ExitOK, "report", "pr", "--baseline", "github:release", "--comment", "off")
	p.want("stdout", p.stdout.String(), "No baseline: ")
	p.want("the summary", p.read("summary"), "No baseline: ")
	if strings.Contains(p.read("summary"), "No baseline: no baseline") {
		t.Error("it stutters")
	}
	p.rollout(command.ExitUsage, "report", "pr", "--baseline", "nowhere.json")
	p.want("stderr", p.stderr.String(), "--baseline nowhere.json: there is no such directory or file")
}

// A limit that had nothing to compare with is no green tick: the first comment says so also in mode
// changes, and on_no_baseline decides.
func TestNothingToCompareWith(t *testing.T) {
	t.Parallel()
	p := newPull(t)
	report := []string{"report", "pr", "--baseline", "github:release", "--comment", "changes"}
	p.rollout(command.ExitOK, append(report, "--max-broken-tasks", "null")...) // nothing that would compare
	if got := p.github.Comments("acme/widgets", 7); len(got) != 0 {
		t.Errorf("the comments are %+v", got)
	}
	p.rollout(command.ExitOK, report...)
	comments := p.github.Comments("acme/widgets", 7)
	if len(comments) != 1 {
		t.Fatalf("there are %d comments", len(comments))
	}
	p.want("the comment", comments[0].Body, "⚪ Rollout has nothing to compare with yet: 1 of 2 tasks passed")
	p.want("stdout", p.stdout.String(), "Gate: nothing to compare with yet. ", "max_broken_tasks: not checked")
	p.rollout(command.ExitGate, append(report, "--on-no-baseline", "fail")...)
	p.want("the comment", p.github.Comments("acme/widgets", 7)[0].Body, "❌ Rollout failed", "there is no baseline to compare with, and on\\_no\\_baseline is fail")
	p.want("the log", p.stderr.String(), "::error title=Rollout%3A max_broken_tasks::not checked")
	p.want("the outputs", p.read("output"), "fail")
}

// Events about a pull request that do not describe it: its base is asked for, and main is not
// assumed.
func TestBaselineOfAPullRequestToAnotherBranch(t *testing.T) {
	t.Parallel()
	const releaseCommit = "4444444444444444444444444444444444444444"
	for event, change := range map[string]func(*aPull){
		"issue_comment": func(p *aPull) {
			p.write("event.json", []byte(`{"issue": {"number": 7, "pull_request": {}}, "repository": {"full_name": "acme/widgets", "default_branch": "main"}}`))
			p.env["GITHUB_SHA"], p.env["GITHUB_REF"] = mainCommit, "refs/heads/main"
		},
		"workflow_dispatch": func(p *aPull) {
			p.write("event.json", []byte(`{"inputs": null, "repository": {"full_name": "acme/widgets", "default_branch": "main"}}`))
			p.env["GITHUB_SHA"], p.env["GITHUB_REF"] = headCommit, "refs/heads/change"
		},
	} {
		t.Run(event, func(t *testing.T) {
			p := newPull(t)
			g := p.github
			g.AddCommit("acme/widgets", releaseCommit, mainCommit)
			g.AddCommit("acme/widgets", headCommit, releaseCommit)
			g.SetBranch("acme/widgets", "release", releaseCommit)
			g.AddPull("acme/widgets", githubtest.Pull{Number: 7, HeadBranch: "change", HeadSHA: headCommit, Base: "release"})
			text := strings.ReplaceAll(p.read("base/result.json"), mainCommit, releaseCommit)
			run := g.AddRun("acme/widgets", githubtest.Run{ID: 40, WorkflowFile: "agent.yml", Branch: "release", SHA: releaseCommit})
			if _, err := g.AddArtifact("acme/widgets", run, githubtest.Artifact{Name: "rollout-result", Files: map[string]string{"result.json": text}}); err != nil {
				t.Fatal(err)
			}
			plan := strings.ReplaceAll(p.read("pr/plan.json"), mainCommit, releaseCommit) // a merge into release
			p.write("pr/plan.json", []byte(plan))
			p.env["GITHUB_EVENT_NAME"], p.env["GITHUB_BASE_REF"], p.env["GITHUB_HEAD_REF"] = event, "", ""
			change(p)
			p.rollout(command.ExitGate, "report", "pr", "--baseline", "github:", "--comment", "off")
			p.want("stdout", p.stdout.String(), "Baseline: release at 4444444", "run 40)")
		})
	}
}

// A commit is the head of two pull requests that go to different branches, and the event names
// neither: each report says that the baseline is a guess, and why.
func TestReportsSayThatTheBaselineIsAGuess(t *testing.T) {
	t.Parallel()
	p := newPull(t)
	g := p.github
	g.SetBranch("acme/widgets", "release", mainCommit)
	g.AddPull("acme/widgets", githubtest.Pull{Number: 8, HeadBranch: "change", HeadSHA: headCommit, Base: "release"})
	p.write("event.json", []byte(`{"inputs": null, "repository": {"full_name": "acme/widgets", "default_branch": "main"}}`))
	p.env["GITHUB_EVENT_NAME"], p.env["GITHUB_BASE_REF"], p.env["GITHUB_HEAD_REF"] = "workflow_dispatch", "", ""
	p.env["GITHUB_SHA"], p.env["GITHUB_REF"] = headCommit, "refs/heads/change"
	p.rollout(command.ExitGate, "report", "pr", "--baseline", "github:", "--comment", "off", "--markdown", "report.md", "--html", "page.html", "--report-json", "report.json")
	const doubt = "it is main, as which branch the change goes to is unknown: "
	for what, text := range map[string]string{
		"stdout": p.stdout.String(), "the summary": p.read("summary"), "report.md": p.read("report.md"), "page.html": p.read("page.html"), "report.json": p.read("report.json"),
	} {
		p.want(what, text, doubt, "go to different branches")
	}
	g.AddPull("acme/widgets", githubtest.Pull{Number: 8, HeadBranch: "change", HeadSHA: headCommit, Base: "main"})
	p.rollout(command.ExitGate, "report", "pr", "--baseline", "github:", "--comment", "off")
	if strings.Contains(p.stdout.String(), "is unknown") {
		t.Errorf("both go to main, and it is in doubt:\n%s", p.stdout.String())
	}
}

func TestGitHubOffLeavesNothingThere(t *testing.T) {
	t.Parallel()
	p := newPull(t)
	p.rollout(command.ExitGate, "report", "pr", "--baseline", "base", "--comment", "always", "--github", "off")
	if p.read("summary")+p.read("output") != "" || len(p.github.Requests()) != 0 || strings.Contains(p.stderr.String(), "::error") {
		t.Errorf("summary %q, output %q, %v", p.read("summary"), p.read("output"), p.github.Seen())
	}
}

// TestCancelledBeforeTheBaselineIsFound: a verdict without the comparison that was asked for says
// nothing, and must not be green.
func TestCancelledBeforeTheBaselineIsFound(t *testing.T) {
	t.Parallel()
	p := newPull(t)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	p.soft = cancelled
	p.rollout(command.ExitCancelled, "report", "pr", "--baseline", "github:", "--comment", "always")
	p.want("stdout", p.stdout.String(), "incomplete: the command was cancelled before it had found the baseline", "no comment about this: the command was cancelled")
	p.want("the outputs", p.read("output"), "incomplete")
	p.rollout(command.ExitCancelled, "diff", "github:main", "pr")
	p.rollout(command.ExitGate, "report", "pr", "--baseline", "base") // sends no request
}

// TestOneCommentWithoutAName: a job without a name is named after the time, and still has one
// comment.
func TestOneCommentWithoutAName(t *testing.T) {
	t.Parallel()
	p := newPull(t)
	p.env["GITHUB_JOB"] = "evaluate"
	plan := p.read("pr/plan.json")
	for i, name := range []string{"2026-01-02__03-04-05", "2026-01-02__04-05-06", "other"} {
		p.write("pr/plan.json", []byte(strings.ReplaceAll(plan, `"job_name": "agent"`, `"job_name": "`+name+`"`)))
		p.env["GITHUB_RUN_ID"] = strconv.Itoa(50 + i)
		p.rollout(command.ExitGate, "report", "pr", "--baseline", "base", "--comment", "changes")
		want := []int{1, 1, 2}[i]
		if got := p.github.Comments("acme/widgets", 7); len(got) != want {
			t.Errorf("after run %d there are %d comments, want %d", i+1, len(got), want)
		}
	}
}

// A name with placeholders is another one in each run, and still has one comment.
func TestOneCommentForANameWithPlaceholders(t *testing.T) {
	t.Parallel()
	p := newPull(t)
	plan := p.read("pr/plan.json")
	for i, run := range []string{"51", "52"} {
		p.write("pr/plan.json", []byte(strings.ReplaceAll(plan, `"job_name": "agent"`, `"job_name": "agent-`+run+`", "named_as": "agent-{run}"`)))
		p.env["GITHUB_RUN_ID"] = run
		p.rollout(command.ExitGate, "report", "pr", "--baseline", "base", "--comment", "changes")
		if got := p.github.Comments("acme/widgets", 7); len(got) != 1 {
			t.Errorf("after run %d there are %d comments", i+1, len(got))
		}
	}
}

// The numbers of two versions of Rollout may not mean the same.
func TestReportNotesABaselineOfAnotherVersion(t *testing.T) {
	t.Parallel()
	p := newPull(t)
	version := func(dir, version string) {
		for _, file := range []string{"plan.json", "result.json"} {
			name := dir + "/" + file
			p.write(name, []byte(strings.Replace(p.read(name), "{", `{"rollout_version": "`+version+`",`, 1)))
		}
	}
	const note = "the baseline was run with Rollout v1.2.3 and this job with v1.3.0: what counts as an error, a timeout or a reward may differ"
	version("base", "v1.2.3")
	p.rollout(command.ExitGate, "report", "pr", "--baseline", "base/result.json", "--comment", "off")
	if strings.Contains(p.stdout.String(), "what counts") { // of a version that is not known, nothing is
		t.Error(p.stdout.String())
	}
	version("pr", "v1.3.0")
	p.rollout(command.ExitGate, "report", "pr", "--baseline", "base/result.json", "--comment", "off")
	p.want("stdout", p.stdout.String(), note)
	p.want("the summary", p.read("summary"), "Rollout v1.2.3")
}

// TestTheVerdictIsWhatTheExitCodeSays: who reads outputs must not see less than who sees the check.
func TestTheVerdictIsWhatTheExitCodeSays(t *testing.T) {
	t.Parallel()
	p := newPull(t)
	p.rollout(command.ExitOK, "report", "pr", "--baseline", "base", "--max-pass-rate-drop", "0", "--max-broken-tasks", "null", "--noise", "test")
	p.want("the outputs", p.read("output"), "inconclusive")
	p.write("output", nil)
	p.rollout(command.ExitGate, "report", "pr", "--baseline", "base", "--max-pass-rate-drop", "0", "--max-broken-tasks", "null", "--noise", "test", "--on-inconclusive", "fail")
	p.want("the outputs", p.read("output"), "fail")
	p.want("stdout", p.stdout.String(), "because on_inconclusive is fail")
	if strings.Contains(p.read("output"), "inconclusive") {
		t.Error(p.read("output"))
	}
}

// TestAdvice: a gate that only advises is green, and hides nothing; after its last day it decides.
func TestAdvice(t *testing.T) {
	t.Parallel()
	p := newPull(t)
	report := []string{"report", "pr", "--baseline", "base", "--comment", "always", "--noise", "ignore", "--max-broken-tasks", "0", "--gate-mode", "advise"}
	p.rollout(command.ExitOK, append(report, "--gate-until", "9999-12-31")...)
	p.want("the comment", p.github.Comments("acme/widgets", 7)[0].Body, "🟠 Rollout would fail, but only advises: ", "that does not make the check red, because the gate only advises until 9999-12-31")
	p.want("the summary", p.read("summary"), "🟠 Rollout would fail, but only advises: ")
	p.want("stdout", p.stdout.String(), "Gate: fail. ", "the gate only advises until 9999-12-31: no verdict makes the check red before 10000-01-01")
	p.want("the log", p.stderr.String(), "::warning title=Rollout%3A max_broken_tasks::")
	p.want("the outputs", p.read("output"), "fail")
	p.want("the verdict", p.read("pr/verdict.json"), `"outcome": "fail"`, `"advised": true`)
	if strings.Contains(p.stderr.String(), "::error") {
		t.Error(p.stderr.String())
	}
	p.write("output", nil) // it is 2026-01-02
	p.rollout(command.ExitOK, append(report, "--gate-until", "2026-01-09")...)
	p.want("the comment", p.github.Comments("acme/widgets", 7)[0].Body, "🟠 Rollout would fail, but only advises: ", "because the gate only advises until 2026-01-09 (7 days more)")
	p.want("stdout", p.stdout.String(), "the gate only advises for 7 days more, until 2026-01-09: from 2026-01-10 on, its verdict decides whether the check is red")
	p.want("the outputs", p.read("output"), "fail")
	p.rollout(command.ExitOK, append(report, "--gate-until", "2026-01-02")...)
	p.want("stdout", p.stdout.String(), "today is the last day on which the gate only advises")
	p.rollout(command.ExitGate, append(report, "--gate-until", "2026-01-01")...)
	p.write("output", nil)
	p.rollout(command.ExitGate, append(report, "--gate-until", "2020-02-28")...)
	p.want("the outputs", p.read("output"), "fail")
	p.want("the comment", p.github.Comments("acme/widgets", 7)[0].Body, "❌ Rollout failed: ")
	p.want("stdout", p.stdout.String(), "the gate only advised until 2020-02-28: since then its verdict decides")
	p.want("the log", p.stderr.String(), "::error title=Rollout%3A max_broken_tasks::")
	p.rollout(command.ExitUsage, append(report, "--gate-until", "soon")...)
	p.want("stderr", p.stderr.String(), `gate.until: "soon" is not a date (write the last day like 2026-12-31)`)
}

// TestAWorkflowWithoutFiles: the runner may give no files, and then there is nothing to leave, but
// a verdict all the same.
func TestAWorkflowWithoutFiles(t *testing.T) {
	t.Parallel()
	p := newPull(t)
	delete(p.env, "GITHUB_OUTPUT")
	p.env["GITHUB_STEP_SUMMARY"] = filepath.Join(p.dir, "no", "such", "directory")
	p.env["GITHUB_EVENT_PATH"] = filepath.Join(p.dir, "none.json")
	p.rollout(command.ExitGate, "report", "pr", "--baseline", "base", "--comment", "off")
	p.want("stdout", p.stdout.String(), "Gate: fail", "the event of this workflow cannot be read", "the job summary is missing")
}

// TestAResultFromTheFutureBlocksNoLaterComment: an artifact of a stranger's may claim any time, and
// must not keep later runs from commenting.
func TestAResultFromTheFutureBlocksNoLaterComment(t *testing.T) {
	t.Parallel()
	p := newPull(t)
	honest := p.read("pr/plan.json")
	p.write("pr/plan.json", []byte(strings.Replace(honest, "2026-01-02T03:00:00Z", "2099-01-01T00:00:00Z", 1)))
	p.rollout(command.ExitGate, "report", "pr", "--baseline", "base", "--comment", "always")
	p.write("pr/plan.json", []byte(strings.Replace(honest, "2026-01-02T03:00:00Z", "2026-01-02T03:04:05Z", 1)))
	p.env["GITHUB_RUN_ID"] = "43"
	p.rollout(command.ExitOK, "report", "pr", "--comment", "always")
	comments := p.github.Comments("acme/widgets", 7)
	if len(comments) != 1 || !strings.Contains(comments[0].Body, "actions/runs/43") {
		t.Errorf("the comments are %+v", comments)
	}
}

func TestReportPrintsAnyForm(t *testing.T) {
	t.Parallel()
	p := newPull(t)
	for form, part := range map[string]string{
		"markdown": "### Tasks against the baseline", "comment": "## ❌ Rollout failed", "junit": "<testsuites", "html": "<!doctype html>", "json": `"headline"`, "annotations": "::error file=",
	} {
		p.rollout(command.ExitGate, "report", "pr", "--baseline", "base", "--github", "off", "--format", form)
		p.want(form, p.stdout.String(), part)
	}
	p.rollout(command.ExitUsage, "report", "pr", "--format", "pdf")
	p.want("stderr", p.stderr.String(), "want text, annotations, comment, html, json, junit, markdown")
}
