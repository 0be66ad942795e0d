package actiontest

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/testenv"
)

func TestAStepAsGitHubsRunnerStartsIt(t *testing.T) {
	image := needImage(t)
	r := newRunner(t)
	suite(t, r.workspace, "apple", "banana", "cherry", "damson")
	r.own()
	step := r.start(image, "", map[string]string{
		"command": "run", "job": "evals/job.yaml", "name": "replay", "env": "MODEL_API_KEY=model-secret", "github-token": "ghs_secret_token",
		"baseline": "none", "comment": "changes", "min-pass-rate": "0.9", "junit": "reports/junit.xml", "allow-fork-checkout": "false", "shard": "",
	}).wait()
	if step.code != 1 {
		t.Errorf("exit code %d, want 1: the pass rate is below what the gate asks for", step.code)
	}
	for name, want := range map[string]string{"pass-rate": "0.8", "mean-reward": "0.8", "verdict": "fail"} {
		if got := step.outputs[name]; got != want {
			t.Errorf("the output %s is %q, want %q", name, got, want)
		}
	}
	// Later steps run on the host, where there is no /github/workspace.
	for name, want := range map[string]string{"result-path": "jobs/replay/result.json", "junit-path": "reports/junit.xml"} {
		if got := step.outputs[name]; got != want {
			t.Errorf("the output %s is %q, want %q", name, got, want)
		}
	}
	if !strings.Contains(step.summary, "elder") {
		t.Errorf("the summary does not name the task that failed:\n%s", step.summary)
	}
	// Untrusted text must not become a command, and no secret may be shown.
	for line := range strings.Lines(step.log) {
		if strings.HasPrefix(strings.TrimSpace(line), "::error") && strings.Contains(line, "forged") {
			t.Errorf("the agent's command is in the log: %s", line)
		}
		if strings.Contains(line, "model-secret") && !strings.HasPrefix(line, "::add-mask::") {
			t.Errorf("the secret is in the log: %s", line)
		}
	}
	job, _, err := result.ReadJob(filepath.Join(r.workspace, "jobs/replay"))
	must(t, err)
	if job.CompletedTrials != 5 || job.Cancelled {
		t.Errorf("%d trials are completed", job.CompletedTrials)
	}
	r.wantOwned()
	if left := r.left(); len(left) > 0 {
		t.Errorf("containers are left: %v", left)
	}

	post := r.start(image, "/rollout-post", nil).wait()
	if post.code != 0 || strings.Contains(post.log, "warning") {
		t.Errorf("the step after the job ends with %d", post.code)
	}
}

// hanging writes a repository with an agent that never ends.
func hanging(t *testing.T, r *runner, attempts string) {
	t.Helper()
	write(t, r.workspace, map[string]string{
		"evals/job.yaml":                 "name: hang\nn_attempts: " + attempts + "\nn_concurrent_trials: 4\nagents: [{name: hanger, execute: 'echo working; sleep 3600'}]\ndatasets: [{path: tasks}]\n",
		"evals/tasks/one/task.toml":      "version = \"1.0\"\n[agent]\ntimeout_sec = 3600\n[environment]\ndocker_image = \"" + testenv.Image + "\"\n",
		"evals/tasks/one/instruction.md": "Wait.\n",
		"evals/tasks/one/tests/test.sh":  "echo 1 > /logs/verifier/reward.txt\n",
		"README.md":                      "", "a": "", "b": "",
	})
	r.own()
}

// waitRunning waits until agents run in n containers.
func (r *runner) waitRunning(n int) {
	r.t.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	for {
		working := 0
		for _, id := range r.left() {
			out, _ := exec.Command("docker", "top", id, "-eo", "pid,args").Output() // it may be starting or gone
			if strings.Contains(string(out), "sleep 3600") {
				working++
			}
		}
		if working == n {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("%d agents work, want %d", working, n)
		}
		time.Sleep(50 * time.Millisecond) // polls
	}
}

var hangInputs = map[string]string{"job": "evals/job.yaml", "baseline": "none", "comment": "off"}

func TestACancelledStepLeavesItsResult(t *testing.T) {
	image := needImage(t)
	r := newRunner(t)
	hanging(t, r, "3")
	s := r.start(image, "", hangInputs)
	r.waitRunning(3)
	step := s.cancel()
	if step.code != 130 || len(step.signals) != 1 {
		t.Errorf("exit code %d after %v, want 130 after SIGINT", step.code, step.signals)
	}
	t.Logf("the step took %v to end", step.took)
	job, unreadable, err := result.ReadJob(filepath.Join(r.workspace, "jobs/hang"))
	must(t, err)
	if !job.Cancelled || job.TotalTrials != 3 || job.Errors[result.Cancelled] != 3 || len(unreadable) > 0 {
		t.Errorf("the result is %+v, unreadable: %v", job, unreadable)
	}
	read(t, r.workspace, "jobs/hang/result.json")
	if left := r.left(); len(left) > 0 {
		t.Errorf("containers are left: %v", left)
	}
	if step.summary == "" {
		t.Error("there is no summary")
	}
	r.wantOwned()
}

func TestPostStepRemovesLeftovers(t *testing.T) {
	image := needImage(t)
	r, other := newRunner(t), newRunner(t)
	hanging(t, r, "2")
	hanging(t, other, "1")
	s, o := r.start(image, "", hangInputs), other.start(image, "", hangInputs)
	r.waitRunning(2)
	other.waitRunning(1)
	docker(t, "kill", "--signal", "KILL", s.name)
	s.wait()
	if left := r.left(); len(left) != 2 {
		t.Fatalf("%d containers are left, want 2: there is nothing to test", len(left))
	}
	post := r.start(image, "/rollout-post", hangInputs).wait()
	if post.code != 0 || !strings.Contains(post.log, "removed 2 environments that the step left") {
		t.Errorf("the step after the job ends with %d", post.code)
	}
	if left := r.left(); len(left) > 0 {
		t.Errorf("containers are left: %v", left)
	}
	r.wantOwned()
	if left := other.left(); len(left) != 1 {
		t.Errorf("of another job %d containers are left, want 1", len(left))
	}
	if o.cancel().code != 130 {
		t.Error("the other job did not end as cancelled")
	}
}

func TestRerunRemovesLeftoversOfFirstAttempt(t *testing.T) {
	image := needImage(t)
	r := newRunner(t)
	hanging(t, r, "2")
	s := r.start(image, "", hangInputs)
	r.waitRunning(2)
	docker(t, "kill", "--signal", "KILL", s.name)
	s.wait()
	r.env["GITHUB_RUN_ATTEMPT"], r.state = "2", nil
	again := r.start(image, "", map[string]string{"job": "evals/job.yaml", "baseline": "none", "comment": "off", "name": "again", "set": "agents=[{name: nop}]"}).wait()
	if again.code != 0 || !strings.Contains(again.log, "removed 2 environments left by a run that was killed") {
		t.Errorf("the second attempt ends with %d", again.code)
	}
	if left := r.left(); len(left) > 0 {
		t.Errorf("containers are left: %v", left)
	}
}

// Without secrets a step of a fork's pull request runs; with secrets it refuses to.
func TestForkCheckoutWithSecretsIsRefused(t *testing.T) {
	image := needImage(t)
	r := newRunner(t)
	suite(t, r.workspace)
	for _, git := range [][]string{{"init", "--quiet"}, {"add", "."}, {"-c", "user.name=m", "-c", "user.email=m@example.com", "commit", "--quiet", "-m", "evil"}} {
		cmd := exec.Command("git", append([]string{"-C", r.workspace}, git...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git: %v\n%s", err, out)
		}
	}
	r.own()
	r.event("pull_request_target", `{"pull_request": {"head": {"repo": {"full_name": "mallory/widgets"}}, "base": {"sha": "`+strings.Repeat("2", 40)+`"}}}`)
	step := r.start(image, "", map[string]string{"job": "evals/job.yaml", "baseline": "none", "comment": "off", "env": "MODEL_API_KEY=model-secret"}).wait()
	if step.code != 2 || !strings.Contains(step.log, "refused to run anything: the event pull_request_target may be about a stranger's changes") || len(r.left()) > 0 {
		t.Errorf("exit code %d, want 2 and nothing started", step.code)
	}
	r.wantOwned()
}
