package actiontest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/testenv"
)

// TestAStepRunsTheCommitOfAgainst: the container's user does not own the checkout, from which the
// step reads a commit; each commit has its own agent's files. The job and the baseline belong to
// the runner afterwards.
func TestAStepRunsTheCommitOfAgainst(t *testing.T) {
	image := needImage(t)
	for _, flag := range []string{"against", "confirm-against"} {
		t.Run(flag, func(t *testing.T) {
			r := newRunner(t)
			agent := func(script string) {
				write(t, r.workspace, map[string]string{"evals/agent/run.sh": script + "\n"})
			}
			write(t, r.workspace, map[string]string{
				"evals/job.yaml": "n_concurrent_trials: 2\nagents: [{name: solver, files: [{source: ./agent, target: /agent}], execute: bash /agent/run.sh}]\n" +
					"datasets: [{path: tasks}]\ngate: {max_broken_tasks: 0, noise: ignore, confirm: {attempts: 1}}\n",
				"evals/tasks/one/task.toml":      "version = \"1.0\"\n[environment]\ndocker_image = \"" + testenv.Image + "\"\n",
				"evals/tasks/one/instruction.md": "Solve it.\n",
				"evals/tasks/one/tests/test.sh":  "if [ -e /tmp/solved ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n",
			})
			agent("touch /tmp/solved")
			for _, args := range [][]string{{"init", "--quiet", "-b", "main"}, {"add", "."}, {"commit", "--quiet", "-m", "one"}, {"rev-parse", "HEAD"}} {
				cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
				cmd.Dir = r.workspace
				cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("git %v: %v\n%s", args, err, out)
				}
				r.env["GITHUB_SHA"] = strings.TrimSpace(string(out)) // of the event, so that the commit does not count as a fork's
			}
			inputs := map[string]string{"command": "run", "job": "evals/job.yaml", "name": "beside", flag: "main", "comment": "off", "baseline": "github:"}
			if flag == "confirm-against" {
				r.own()
				if step := r.start(image, "", map[string]string{"command": "run", "job": "evals/job.yaml", "name": "then", "baseline": "none", "comment": "off"}).wait(); step.code != 0 {
					t.Fatalf("the baseline ends with %d\n%s", step.code, step.log)
				}
				inputs["baseline"] = "jobs/then"
			}
			agent("echo worse")
			r.own()
			step := r.start(image, "", inputs).wait()
			if step.code != 1 || step.outputs["verdict"] != "fail" {
				t.Fatalf("exit code %d and the verdict %q, want a task that broke\n%s", step.code, step.outputs["verdict"], step.log)
			}
			for _, where := range []string{step.log, step.summary} {
				if !strings.Contains(where, "confirmed broken: passed 0 of 1 more attempt, and the baseline 1 of 1") {
					t.Errorf("it is not said that both were tried again:\n%s", where)
				}
			}
			found, err := filepath.Glob(filepath.Join(r.workspace, "jobs/beside-against-*"))
			must(t, err)
			if len(found) != 1 {
				t.Fatal(found)
			}
			base, _, err := result.ReadJob(found[0])
			must(t, err)
			if got, want := fmt.Sprint(base.TotalTrials, base.ConfirmationTrials), map[string]string{"against": "1 1", "confirm-against": "0 1"}[flag]; got != want {
				t.Errorf("the baseline has %s trials and further attempts, want %s", got, want)
			}
			r.wantOwned()
			if left := r.left(); len(left) > 0 {
				t.Errorf("containers are left: %v", left)
			}
		})
	}
}
