package cli

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/testenv"
)

// commitAll makes a repository of a directory, with one commit of all files.
func commitAll(t *testing.T, dir string) {
	t.Helper()
	for _, args := range [][]string{{"init", "--quiet", "-b", "main"}, {"add", "."}, {"commit", "--quiet", "-m", "one"}} {
		cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
}

// TestConfirmationsOfBothAreResumed: a cancel ends the attempts of both, and the printed command
// makes those that are left.
func TestConfirmationsOfBothAreResumed(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--against", "main"}, {"--baseline", "jobs/then", "--confirm-against", "main"}} {
		for _, last := range []string{"jobs/pr/a/evals/one__1", "jobs/pr/a/evals/one__3", "jobs/pr-against-*/a/evals/two__3", "jobs/pr-against-*/a/evals/one__2"} {
			t.Run(args[len(args)-2]+" "+strings.ReplaceAll(last, "/", " "), func(t *testing.T) {
				s := &suspects{T: t, dir: t.TempDir(), outcome: map[string][]string{}}
				agent := func(execute string) {
					s.write("job.yaml", fmt.Sprintf("environment: {type: fake}\nn_concurrent_trials: 2\nagents: [{name: a, execute: %s}]\n"+
						"datasets: [{path: evals}]\ngate: {max_broken_tasks: 0, noise: ignore, confirm: {attempts: 4}}\n", execute))
				}
				for _, task := range []string{"one", "two"} {
					s.write("evals/"+task+"/task.toml", "version = \"1.0\"\n[environment]\ndocker_image = \"x\"\n")
					s.write("evals/"+task+"/instruction.md", "Do it.\n")
					s.write("evals/"+task+"/tests/test.sh", "if [ -e /solved ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi\n")
				}
				agent("touch /solved")
				commitAll(t, s.dir)
				s.rollout(0, "run", "job.yaml", "--name", "then")
				agent("echo worse")
				s.stop = func() bool {
					found, _ := filepath.Glob(filepath.Join(s.dir, last, result.ResultFile))
					return len(found) > 0
				}
				s.rollout(130, append([]string{"run", "job.yaml", "--name", "pr", "--log-format", "plain"}, args...)...)
				again := s.printed("Resume it with:")
				s.stop = nil
				s.rollout(1, append([]string{"report", "jobs/pr"}, args[:len(args)-2]...)...)
				s.rollout(1, again...)
				s.says("confirmed broken: passed 0 of 4 more attempts, and the baseline 4 of 4")
				for _, pattern := range []string{"pr", "pr-against-*"} {
					dirs, err := filepath.Glob(filepath.Join(s.dir, "jobs", pattern))
					if err != nil || len(dirs) != 1 {
						t.Fatal(dirs, err)
					}
					job, _, err := result.ReadJob(dirs[0])
					if err != nil || job.ConfirmationTrials != 8 || job.Cancelled {
						t.Errorf("%s has %d attempts, cancelled %t, %v", dirs[0], job.ConfirmationTrials, job.Cancelled, err)
					}
				}
			})
		}
	}
}

// Two commits whose agents differ in nothing that matters: whether a trial passes is drawn from its
// task and its commit, so that all attempts of one side are copies, which is the worst case. The
// gate may be red in a share 1 - confidence of the runs. Nothing here depends on the machine: the
// draws are those of the seeds.
func TestUnchangedAgentsPassAgainstEachOther(t *testing.T) {
	testenv.Long(t, "agents are compared with each other many times")
	t.Parallel()
	const tasks = 20
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	agent := func(salt int) {
		write("job.yaml", fmt.Sprintf(`
name: aa
n_concurrent_trials: 4
environment: {type: fake}
agents:
  - name: a
    execute: echo "$((SEED * 2 + %d))" > /answer
    env: {SEED: "0"}
datasets: [{path: evals}]
gate: {max_pass_rate_drop: 0, max_broken_tasks: 0, confirm: {attempts: 2}}
`, salt))
	}
	for n := range tasks {
		task := fmt.Sprintf("evals/t%02d/", n)
		write(task+"task.toml", "version = \"1.0\"\n[environment]\ndocker_image = \"x\"\n")
		write(task+"instruction.md", "Do it.\n")
		write(task+"tests/test.sh", fmt.Sprintf(`read -r x < /answer
x=$(( (x * 7919 + %d * 104729 + 12345) %% 2147483648 ))
for i in 1 2 3 4 5; do x=$(( ((x ^ (x >> 13)) * 1103515245 + 12345) %% 2147483648 )); done
echo $(( (x / 65536) %% 2 )) > /logs/verifier/reward.txt
`, n))
	}
	agent(0)
	commitAll(t, dir)
	agent(1)
	run := func(t *testing.T, name string, seed int, args ...string) (code int, out string) {
		t.Helper()
		var text bytes.Buffer
		env := System()
		env.Providers, env.Dir, env.Stdout, env.Stderr, env.Now = offered, dir, &text, &text, time.Now
		code = Main(t.Context(), t.Context(), env, append([]string{"run", "job.yaml", "--name", name, "--set", fmt.Sprintf("agents.0.env.SEED=%d", seed)}, args...))
		if code > command.ExitGate {
			t.Fatalf("exit code %d\n%s", code, &text)
		}
		return code, text.String()
	}
	read := func(t *testing.T, pattern string) result.Job {
		t.Helper()
		dirs, err := filepath.Glob(filepath.Join(dir, "jobs", pattern))
		if err != nil || len(dirs) != 1 {
			t.Fatal(dirs, err)
		}
		job, _, err := result.ReadJob(dirs[0])
		if err != nil {
			t.Fatal(err)
		}
		return job
	}
	// Expected are at most 5 % of red runs. That so many more are red has a probability below
	// 0.001.
	runs := testenv.Times(12, 60)
	limit := map[bool]int{true: 4, false: 10}[runs <= 12]
	t.Run("all trials", func(t *testing.T) {
		red, differ, tried := 0, 0, 0
		for seed := range runs {
			name := fmt.Sprintf("s%d", seed)
			code, out := run(t, name, seed+1, "--against", "HEAD")
			red += code
			head, base := read(t, name), read(t, name+"-against-*")
			if head.CompletedTrials != tasks || base.CompletedTrials != tasks || base.ReusedTrials != 0 {
				t.Fatalf("%d and %d of %d trials completed\n%s", head.CompletedTrials, base.CompletedTrials, tasks, out)
			}
			if head.PassRate != base.PassRate && strings.Contains(out, "Tasks against the baseline") {
				differ++
			}
			if head.ConfirmationTrials != base.ConfirmationTrials {
				t.Fatalf("%d and %d attempts were made again\n%s", head.ConfirmationTrials, base.ConfirmationTrials, out)
			}
			tried += head.ConfirmationTrials
		}
		t.Logf("%d of %d runs are red, and %d differ", red, runs, differ)
		if red > limit {
			t.Errorf("%d of %d runs of an unchanged agent are red", red, runs)
		}
		if differ < runs/2 || tried < runs {
			t.Errorf("only %d of %d runs differ, and %d attempts were made again: the outcomes are not drawn", differ, runs, tried)
		}
	})
	// The stored baseline and the day of the job differ by chance alone; what looks broken is tried
	// again on both sides.
	t.Run("tasks that look broken", func(t *testing.T) {
		red, cleared, tried := 0, 0, 0
		for seed := range runs {
			then, name := fmt.Sprintf("then%d", seed), fmt.Sprintf("c%d", seed)
			run(t, then, 2000+seed)
			code, out := run(t, name, 4000+seed, "--baseline", "jobs/"+then, "--confirm-against", "HEAD")
			red += code
			head, base := read(t, name), read(t, name+"-against-*")
			if head.CompletedTrials != tasks || base.TotalTrials != 0 || head.ConfirmationTrials != base.ConfirmationTrials {
				t.Fatalf("%d trials completed, the baseline has %d, and %d and %d attempts were made again\n%s", head.CompletedTrials, base.TotalTrials, head.ConfirmationTrials, base.ConfirmationTrials, out)
			}
			tried += head.ConfirmationTrials
			cleared += strings.Count(out, "not broken by this change")
		}
		t.Logf("%d of %d runs are red; of %d further attempts, %d tasks are shown not to be broken", red, runs, tried, cleared)
		if red > limit {
			t.Errorf("%d of %d runs of an unchanged agent are red", red, runs)
		}
		if tried < runs || cleared < runs/2 {
			t.Errorf("%d attempts were made again, and %d tasks are not broken by a change: the outcomes are not drawn", tried, cleared)
		}
	})
}
