//go:build linux

package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/testenv"
)

// pairJob creates a job in a repository. Its agent solves each task in the commit "good", and
// none in the working tree. It first waits for the seconds in $WAIT.
func pairJob(t *testing.T, provider string) job {
	t.Helper()
	j := job{dir: t.TempDir(), name: fmt.Sprintf("beside-%d-%d", os.Getpid(), time.Now().UnixNano()), provider: provider}
	write := func(name, text string) {
		path := filepath.Join(j.dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	write("evals/job.yaml", fmt.Sprintf(`
name: %s
n_concurrent_trials: 2
environment:
  type: %s
  provider_config: %s
agents:
  - name: a
    files: [./agent]
    execute: |
      echo working
      sleep "$WAIT"
      . /agent/solve
    env: {WAIT: "${WAIT:-0}"}
datasets:
  - path: tasks
gate: {max_broken_tasks: 0, noise: ignore}
`, j.name, provider, cmp.Or(configs[provider], "{}")))
	for _, task := range []string{"one", "two"} {
		write("evals/tasks/"+task+"/task.toml", "version = \"1.0\"\n[environment]\ndocker_image = \""+testenv.Image+"\"\n")
		write("evals/tasks/"+task+"/instruction.md", "Do it.\n")
		write("evals/tasks/"+task+"/tests/test.sh", "if [ -e /tmp/solved ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n")
	}
	write("evals/agent/solve", "touch /tmp/solved\n")
	write(".gitignore", "jobs\nparts\nmerged\n")
	// Reading the commits must not run anything in the repository.
	write(".gitattributes", "* filter=evil\n")
	git := func(args ...string) {
		cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
		cmd.Dir = j.dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	git("init", "--quiet", "-b", "main")
	git("add", ".")
	git("commit", "--quiet", "-m", "one")
	git("tag", "good")
	git("config", "filter.evil.smudge", "touch "+filepath.Join(j.dir, "ran")+"; cat")
	git("config", "filter.evil.required", "true")
	write("evals/agent/solve", "true\n")
	return j
}

// baseline returns the name of the baseline's directory in a directory of jobs.
func (j job) baseline(t *testing.T, jobs string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(j.dir, jobs, j.name+"-against-???????"))
	must(t, err)
	if len(found) != 1 {
		t.Fatalf("the baselines are %v", found)
	}
	return filepath.Join(jobs, filepath.Base(found[0]))
}

// wantRewards checks the rewards of all trials of a job.
func (j job) wantRewards(t *testing.T, dir string, want float64) {
	t.Helper()
	tree, err := result.ReadTree(filepath.Join(j.dir, dir))
	must(t, err)
	if len(tree.Trials) != 2 {
		t.Errorf("%s has %d trials, want 2", dir, len(tree.Trials))
	}
	for _, trial := range tree.Trials {
		if trial.Reward == nil || *trial.Reward != want {
			t.Errorf("%s in %s: reward %v, error %v, want %v", trial.Key, dir, trial.Reward, trial.Error, want)
		}
	}
}

func (j job) wantNothingRan(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(j.dir, "ran")); err == nil {
		t.Error("a filter of the repository ran")
	}
}

func TestAgainst(t *testing.T) {
	sideBySide(t, providersHere, func(t *testing.T, provider string) {
		j := pairJob(t, provider)
		r := j.start(t, "evals/job.yaml", "--against", "good")
		if code := r.exit(t); code != 1 || !strings.Contains(r.output.String(), "2 broken") {
			t.Errorf("exit code %d, want 1, with two broken tasks", code)
		}
		j.wantRewards(t, filepath.Join("jobs", j.name), 0)
		j.wantRewards(t, j.baseline(t, "jobs"), 1)
		j.wantLeft(t, 0, "after the job")
		j.wantNothingRan(t)

		for _, shard := range []string{"1/2", "2/2"} {
			if code := j.start(t, "evals/job.yaml", "--against", "good", "--shard", shard, "--jobs-dir", "parts").exit(t); code != 0 {
				t.Errorf("shard %s: exit code %d", shard, code)
			}
		}
		out := filepath.Join("merged", j.name)
		merged := j.start(t, "merge", "parts", "--output", out)
		if code := merged.exit(t); code != 1 || !strings.Contains(merged.output.String(), "2 broken") {
			t.Errorf("merge: exit code %d, want 1, with two broken tasks", code)
		}
		j.wantRewards(t, out, 0)
		j.wantRewards(t, j.baseline(t, "merged"), 1)
	})
}

// An interrupted run is resumed by the command that it prints. The baseline can also be resumed
// alone.
func TestAgainstIsResumed(t *testing.T) {
	sideBySide(t, providersHere, func(t *testing.T, provider string) {
		j := pairJob(t, provider)
		r := startWith(t, j.dir, "env", "WAIT=3600", program(provider), "evals/job.yaml", "--against", "good")
		running := func() bool { // both jobs have a running trial
			for _, of := range []string{j.name, j.name + "-against-*"} {
				files, _ := filepath.Glob(filepath.Join(j.dir, "jobs", of, "a/tasks/*/command/stdout.txt"))
				if len(files) != 1 {
					return false
				}
				if text, err := os.ReadFile(files[0]); err != nil || !strings.Contains(string(text), "working") {
					return false
				}
			}
			return true
		}
		for deadline := time.Now().Add(2 * time.Minute); !running(); time.Sleep(20 * time.Millisecond) { // polls files
			if time.Now().After(deadline) {
				t.Fatal("after two minutes, no trial of each job runs")
			}
		}
		must(t, r.cmd.Process.Signal(syscall.SIGINT))
		if code := r.exit(t); code != 130 {
			t.Errorf("exit code %d, want 130", code)
		}
		_, command, ok := strings.Cut(r.output.String(), "Resume it with: rollout ")
		if !ok {
			t.Fatal("it does not say how to resume")
		}
		command, _, _ = strings.Cut(command, "\n")
		again := startWith(t, j.dir, "sh", "-c", `exec "$0" `+command, program(provider))
		if code := again.exit(t); code != 1 || !strings.Contains(again.output.String(), "2 broken") {
			t.Errorf("exit code %d, want 1, with two broken tasks", code)
		}
		base := j.baseline(t, "jobs")
		j.wantRewards(t, filepath.Join("jobs", j.name), 0)
		j.wantRewards(t, base, 1)

		if code := j.start(t, "resume", base, "--rerun", "a/one").exit(t); code != 0 {
			t.Errorf("the baseline alone: exit code %d", code)
		}
		j.wantRewards(t, base, 1)
		j.wantNothingRan(t)
	})
}
