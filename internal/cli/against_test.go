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

	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/internal/testenv"
)

// Two commits whose agents differ in nothing that matters: each trial passes by chance, drawn from its task, its attempt and its commit. The
// gate may be red in a share 1 - confidence of the runs. Nothing here depends on the machine: the draws are those of the seeds.
func TestUnchangedAgentsPassBesideEachOther(t *testing.T) {
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
gate: {max_pass_rate_drop: 0, max_broken_tasks: 0}
`, salt))
	}
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
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
	git("init", "--quiet", "-b", "main")
	git("add", ".")
	git("commit", "--quiet", "-m", "one")
	agent(1)
	runs, red, differ := testenv.Times(12, 60), 0, 0
	for seed := range runs {
		var out bytes.Buffer
		env := System()
		env.Providers, env.Dir, env.Stdout, env.Stderr, env.Now = offered, dir, &out, &out, time.Now
		name := fmt.Sprintf("s%d", seed)
		code := Main(t.Context(), t.Context(), env, []string{"run", "job.yaml", "--against", "HEAD", "--name", name, "--set", fmt.Sprintf("agents.0.env.SEED=%d", seed+1)})
		if code > exitGate {
			t.Fatalf("exit code %d\n%s", code, &out)
		}
		if code == exitGate {
			red++
		}
		bases, err := filepath.Glob(filepath.Join(dir, "jobs", name+"-against-*"))
		if err != nil || len(bases) != 1 {
			t.Fatal(bases, err)
		}
		head, _, err := result.ReadJob(filepath.Join(dir, "jobs", name))
		if err != nil {
			t.Fatal(err)
		}
		base, _, err := result.ReadJob(bases[0])
		if err != nil {
			t.Fatal(err)
		}
		if head.CompletedTrials != tasks || base.CompletedTrials != tasks || base.ReusedTrials != 0 {
			t.Fatalf("%d and %d of %d trials completed\n%s", head.CompletedTrials, base.CompletedTrials, tasks, &out)
		}
		if head.PassRate != base.PassRate && strings.Contains(out.String(), "Tasks against the baseline") {
			differ++
		}
	}
	t.Logf("%d of %d runs are red, and %d differ", red, runs, differ)
	// Expected are at most 5 %. That so many more are red has a probability below 0.001.
	if limit := map[bool]int{true: 4, false: 10}[runs <= 12]; red > limit {
		t.Errorf("%d of %d runs of an unchanged agent are red", red, runs)
	}
	if differ < runs/2 {
		t.Errorf("only %d of %d runs differ: the outcomes are not drawn", differ, runs)
	}
}
