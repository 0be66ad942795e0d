package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/githubtest"
)

// newRun is a pull request with a comment of run 42, and a job that can run.
func newRun(t *testing.T) *aPull {
	t.Helper()
	p := newPull(t)
	p.rollout(command.ExitGate, "report", "pr", "--baseline", "base", "--comment", "changes")
	for name, text := range map[string]string{
		"job.yaml":                  "name: agent\nenvironment: {type: fake}\nagents: [{name: a, execute: \"true\"}]\ndatasets: [{path: evals}]\n",
		"evals/easy/task.toml":      "version = \"1.0\"\n[environment]\ndocker_image = \"x\"\n",
		"evals/easy/instruction.md": "Do it.\n",
		"evals/easy/tests/test.sh":  "echo 1 > /logs/verifier/reward.txt\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(p.dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		p.write(name, []byte(text))
	}
	p.env["GITHUB_RUN_ID"] = "43"
	return p
}

// comment returns the only comment.
func (p *aPull) comment() string {
	p.t.Helper()
	comments := p.github.Comments("acme/widgets", 7)
	if len(comments) != 1 {
		p.t.Fatalf("the comments are %+v", comments)
	}
	return comments[0].Body
}

const evaluating = "⏳ **Evaluating [`2222222`](https://github.com/acme/widgets/commit/2222222222222222222222222222222222222222) …** " +
	"([run](https://github.com/acme/widgets/actions/runs/43), since 2"

// whileItRuns calls do once, when the comment says that a run goes on.
func (p *aPull) whileItRuns(do func()) {
	var once sync.Once
	p.asked = func() {
		for _, c := range p.github.Comments("acme/widgets", 7) {
			if strings.Contains(c.Body, "Evaluating") {
				once.Do(do)
			}
		}
	}
	p.t.Cleanup(func() {
		once.Do(func() { p.t.Error("the comment never said that the run goes on") })
	})
}

func TestCommentSaysThatARunGoesOn(t *testing.T) {
	t.Parallel()
	p := newRun(t)
	p.whileItRuns(func() { p.want("the comment", p.comment(), evaluating, "Rollout failed", "falls") })
	p.rollout(command.ExitOK, "run", "job.yaml", "--comment", "changes")
	if text := p.comment(); strings.Contains(text, "Evaluating") || strings.Contains(text, "falls") || !strings.Contains(text, "Rollout passed") {
		t.Errorf("the comment is %s", text)
	}
}

// A line that says that a run goes on is no news where there is no comment: it would be one, of
// each run.
func TestNoCommentSaysThatARunGoesOn(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*aPull) []string{
		"mode off": func(*aPull) []string { return []string{"--comment", "off"} },
		"a shard":  func(*aPull) []string { return []string{"--comment", "always", "--shard", "1/2"} },
		"no token": func(p *aPull) []string { delete(p.env, "GITHUB_TOKEN"); return []string{"--comment", "always"} },
		"a fork": func(p *aPull) []string {
			p.event("stranger/widgets")
			p.env["GITHUB_TOKEN"] = githubtest.ReadToken
			return []string{"--comment", "always"}
		},
		"no pull request": func(p *aPull) []string {
			p.env["GITHUB_REF"], p.env["GITHUB_EVENT_NAME"] = "refs/heads/main", "push"
			p.write("event.json", []byte(`{}`))
			return []string{"--comment", "always"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newRun(t)
			before := p.comment()
			p.rollout(command.ExitOK, append([]string{"run", "job.yaml"}, change(p)...)...)
			if text := p.comment(); text != before || strings.Contains(p.stderr.String(), "the line about this run") {
				t.Errorf("the comment is %s\n%s", text, p.stderr.String())
			}
		})
	}
	t.Run("no comment", func(t *testing.T) {
		p := newRun(t)
		p.write("job.yaml", []byte(strings.Replace(p.read("job.yaml"), "agent", "another", 1)))
		p.asked = func() {
			if comments := p.github.Comments("acme/widgets", 7); len(comments) == 2 && !strings.Contains(comments[1].Body, "Rollout passed") {
				t.Errorf("the comment is %s", comments[1].Body)
			}
		}
		p.rollout(command.ExitOK, "run", "job.yaml", "--comment", "changes")
		p.want("the comment", p.comment(), "Rollout failed")
	})
}

// A token that may not write is no reason to fail.
func TestAnnouncingWithoutTheRightTo(t *testing.T) {
	t.Parallel()
	p := newRun(t)
	before := p.comment()
	p.env["GITHUB_TOKEN"] = githubtest.ReadToken
	p.rollout(command.ExitOK, "run", "job.yaml", "--comment", "changes")
	p.want("the log", p.stderr.String(), "the line about this run in the comment could not be written")
	if text := p.comment(); text != before {
		t.Errorf("the comment is %s", text)
	}
}

func TestACancelledRunTakesItsLineBack(t *testing.T) {
	t.Parallel()
	p := newRun(t)
	soft, cancel := context.WithCancel(t.Context())
	defer cancel()
	p.soft = soft
	p.whileItRuns(cancel)
	p.rollout(command.ExitCancelled, "run", "job.yaml", "--comment", "changes")
	p.want("the comment", p.comment(), "⏹️ The evaluation of [`2222222`]", "was cancelled. ([run](https://github.com/acme/widgets/actions/runs/43))", "Rollout failed")
	p.soft, p.asked = nil, nil
	p.env["GITHUB_RUN_ATTEMPT"] = "2"
	p.rollout(command.ExitOK, "run", "job.yaml", "--comment", "changes", "--resume")
	if text := p.comment(); strings.Contains(text, "cancelled") || !strings.Contains(text, "Rollout passed") {
		t.Errorf("the comment after the run was resumed is %s", text)
	}
}

// The verdict of a run that was superseded while it ran is not written.
func TestASupersededRunDoesNotComment(t *testing.T) {
	t.Parallel()
	p := newRun(t)
	p.whileItRuns(func() {
		newer := newRun(t)
		newer.github, newer.env = p.github, map[string]string{}
		for k, v := range p.env {
			newer.env[k] = v
		}
		newer.env["GITHUB_RUN_ID"] = "44"
		newer.rollout(command.ExitOK, "run", "job.yaml", "--comment", "changes")
	})
	p.rollout(command.ExitOK, "run", "job.yaml", "--comment", "changes")
	p.want("the comment", p.comment(), "Rollout passed", "actions/runs/44")
}

func TestAFailedRunTakesItsLineBack(t *testing.T) {
	t.Parallel()
	p := newRun(t)
	p.whileItRuns(func() { // the job's record of its plan is damaged: there is no verdict
		p.write("jobs/agent/plan.json", []byte("{"))
	})
	p.rollout(command.ExitFailed, "run", "job.yaml", "--comment", "changes")
	p.want("the comment", p.comment(), "ended without a verdict", "Rollout failed")
}

// divide plans two shards of the job, as the job plan of a workflow does.
func (p *aPull) divide(code int, args ...string) {
	p.t.Helper()
	p.rollout(code, append([]string{"plan", "job.yaml", "--shards", "2"}, args...)...)
}

func TestCommentSaysThatShardsGoOn(t *testing.T) {
	t.Parallel()
	p := newRun(t)
	p.divide(command.ExitOK, "--comment", "changes")
	p.want("the comment", p.comment(), evaluating, "Rollout failed", "falls")
	p.rollout(command.ExitOK, "run", "job.yaml", "--shard", "1/1", "--jobs-dir", "shards", "--comment", "changes")
	p.want("the comment", p.comment(), evaluating)
	p.rollout(command.ExitOK, "merge", "shards", "--comment", "changes")
	if text := p.comment(); strings.Contains(text, "Evaluating") || !strings.Contains(text, "Rollout passed") {
		t.Errorf("the comment is %s", text)
	}
	before := p.comment()
	p.divide(command.ExitOK)
	p.divide(command.ExitOK, "--comment", "off")
	p.divide(command.ExitUsage, "--comment", "sometimes")
	p.rollout(command.ExitUsage, "plan", "job.yaml", "--comment", "changes")
	if text := p.comment(); text != before {
		t.Errorf("the comment is %s", text)
	}
}

// A run that somebody asked for says first, in a comment of its job, what it would run and cost.
func TestTheEstimateIsPostedAndReplaced(t *testing.T) {
	t.Parallel()
	p := newRun(t)
	p.write("job.yaml", []byte(strings.Replace(p.read("job.yaml"), "agent", "asked", 1)))
	p.write("event.json", []byte(`{"issue": {"number": 7, "pull_request": {}}, "repository": {"full_name": "acme/widgets", "default_branch": "main"}}`))
	p.env["GITHUB_EVENT_NAME"], p.env["GITHUB_SHA"], p.env["GITHUB_REF"], p.env["GITHUB_BASE_REF"] = "issue_comment", mainCommit, "refs/heads/main", ""
	if err := os.Mkdir(filepath.Join(p.dir, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.write(".git/HEAD", []byte(headCommit+"\n")) // which was checked out
	key := result.Key{Agent: "a", Dataset: "evals", Task: "easy", Attempt: 1}
	earlier, err := json.Marshal(result.Summarize(result.Plan{JobName: "asked", Trials: result.KeysOf(key), Metrics: []string{"mean"}},
		[]result.Trial{{Key: key, Reward: new(1.0), Cost: result.Dollars(0.25), Durations: result.Durations{TotalSec: 61}}}))
	if err != nil {
		t.Fatal(err)
	}
	p.write("earlier.json", earlier)
	asked := func() string {
		t.Helper()
		comments := p.github.Comments("acme/widgets", 7)
		if len(comments) != 2 {
			t.Fatalf("the comments are %+v", comments)
		}
		return comments[1].Body
	}
	p.divide(command.ExitOK, "--comment", "changes", "--estimate", "--baseline", "earlier.json")
	p.want("the log", p.stdout.String(), "1 trial of 1 task in 1 shard: easy", "Cost: about $0.25, by what 1 trial cost before", "Time: about 1m1s")
	p.want("the comment", asked(), "Evaluating [`2222222`](https://github.com/acme/widgets/commit/2222222222222222222222222222222222222222)",
		"This would run", "1 trial of 1 task in 1 shard: `easy`", "0.25, by what 1 trial cost before", "Time: about 1m1s", "earlier.json", "There is none yet")
	p.env["INPUT_COMMAND"], p.env["INPUT_NAME"], p.env["INPUT_COMMENT"], p.env["INPUT_BASELINE"] = "withdraw", "asked", "changes", "github:"
	p.rollout(command.ExitOK, "action")
	p.want("the comment", asked(), "ended without a verdict", "There is none yet")
	p.env["GITHUB_RUN_ID"] = "44"
	p.divide(command.ExitOK, "--comment", "changes", "--estimate")
	p.want("the comment", asked(), "Cost: not known", "none was given")
	p.rollout(command.ExitOK, "run", "job.yaml", "--shard", "1/1", "--jobs-dir", "shards")
	p.rollout(command.ExitOK, "merge", "shards", "--comment", "failures")
	if text := asked(); strings.Contains(text, "This would run") || !strings.Contains(text, "Rollout passed") {
		t.Errorf("the comment is %s", text)
	}
	p.rollout(command.ExitUsage, "plan", "job.yaml", "--target", "1m")
	p.divide(command.ExitUsage, "--baseline", "earlier.json")
}

func TestShardsThatCannotBeMergedTakeTheirLineBack(t *testing.T) {
	t.Parallel()
	p := newRun(t)
	p.divide(command.ExitOK, "--comment", "changes")
	p.rollout(command.ExitUsage, "merge", "nowhere", "--name", "agent", "--comment", "changes")
	p.want("the comment", p.comment(), "ended without a verdict", "Rollout failed", "falls")
}

// A verdict that cannot be posted leaves no announcement of its run.
func TestARunWhoseVerdictIsNotPostedTakesItsLineBack(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"run": {"run", "job.yaml"}, "merge": {"merge", "shards"}} {
		t.Run(name, func(t *testing.T) {
			p := newRun(t)
			p.rollout(command.ExitOK, "run", "job.yaml", "--shard", "1/1", "--jobs-dir", "shards")
			p.divide(command.ExitOK, "--comment", "changes")
			p.github.Before(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodPatch {
					return false
				}
				text, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				r.Body = io.NopCloser(bytes.NewReader(text))
				if !bytes.Contains(text, []byte("Rollout passed")) {
					return false
				}
				w.WriteHeader(http.StatusUnprocessableEntity)
				return true
			})
			p.rollout(command.ExitOK, append(args, "--comment", "changes")...)
			p.want("the log", p.stdout.String()+p.stderr.String(), "the pull request has no comment about this")
			p.want("the comment", p.comment(), "ended without a verdict", "Rollout failed")
		})
	}
}

// The job of a workflow that runs when it was cancelled has no results.
func TestActionTakesTheLineOfACancelledRunBack(t *testing.T) {
	t.Parallel()
	p := newRun(t)
	p.divide(command.ExitOK, "--comment", "changes")
	p.env["INPUT_COMMAND"], p.env["INPUT_COMMENT"], p.env["INPUT_BASELINE"] = "withdraw", "changes", "github:"
	p.rollout(command.ExitUsage, "action")
	p.want("the log", p.stderr.String(), "the name of the job is missing")
	p.env["INPUT_NAME"] = "another"
	p.rollout(command.ExitOK, "action")
	p.want("the comment", p.comment(), evaluating)
	p.want("the log", p.stderr.String(), "No line was removed: no comment of a job named another announces this run")
	p.env["INPUT_NAME"] = "agent"
	p.rollout(command.ExitOK, "action")
	p.want("the comment", p.comment(), "ended without a verdict. ([run]", "Rollout failed", "falls")
	p.env["GITHUB_RUN_ID"] = "45"
	p.divide(command.ExitOK, "--comment", "changes")
	p.env["GITHUB_RUN_ID"], p.env["INPUT_GITHUB-TOKEN"] = "43", githubtest.WriteToken
	p.rollout(command.ExitOK, "action")
	p.want("the comment", p.comment(), "Evaluating", "actions/runs/45")
	p.env["GITHUB_RUN_ID"], p.env["INPUT_GITHUB-TOKEN"] = "45", githubtest.ReadToken
	p.rollout(command.ExitOK, "action")
	p.want("the log", p.stderr.String(), "the line about this run in the comment could not be written")
}
