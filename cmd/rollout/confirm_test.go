//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/fake"
	"github.com/org/rollout-action/internal/test/testenv"
)

// suspectJob creates a directory with a job in which all tasks look broken compared to its
// baseline.
func suspectJob(t *testing.T) job {
	t.Helper()
	j := job{dir: t.TempDir(), name: "suspect", provider: fake.Name}
	files := map[string]string{}
	for name, answer := range map[string]string{"base": "1", "job": "0"} {
		files[name+".yaml"] = fmt.Sprintf(`
name: %s
n_concurrent_trials: 2
environment: {type: fake}
agents:
  - name: works
    execute: |
      sleep 0.01
      echo %s > /tmp/answer
datasets: [{path: evals}]
gate: {max_broken_tasks: 0, noise: ignore, confirm: {attempts: 4}}
`, map[string]string{"base": "base", "job": j.name}[name], answer)
	}
	j.runBaseline(t, files, "x", "one", "two", "three")
	return j
}

// runBaseline writes files and tasks, whose reward is the number that the agent writes to
// /tmp/answer, and runs base.yaml, in which all pass.
func (j job) runBaseline(t *testing.T, files map[string]string, image string, tasks ...string) {
	t.Helper()
	for _, task := range tasks {
		files["evals/"+task+"/task.toml"] = "version = \"1.0\"\n[environment]\ndocker_image = \"" + image + "\"\n"
		files["evals/"+task+"/instruction.md"] = "Do what is " + task + ".\n"
		files["evals/"+task+"/tests/test.sh"] = "#!/bin/bash\ncat /tmp/answer > /logs/verifier/reward.txt\n"
	}
	for name, text := range files {
		path := filepath.Join(j.dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	if r := j.start(t, "run", "base.yaml"); r.exit(t) != 0 {
		t.Fatalf("the baseline does not pass:\n%s", r.output)
	}
}

// TestKilledConfirmationsRunOnce kills jobs during confirmation attempts, continues them, and
// compares the results with those of an undisturbed job.
func TestKilledConfirmationsRunOnce(t *testing.T) {
	testenv.Long(t, "jobs are killed many times while they confirm")
	t.Parallel()
	random := seed(t)
	calm := suspectJob(t)
	args := []string{"run", "job.yaml", "--resume", "--baseline", "jobs/base"}
	began := time.Now()
	r := calm.start(t, args...)
	want := r.exit(t)
	took := time.Since(began)
	if n := len(calm.results(t)); want != 1 || n != 3+3*4 {
		t.Fatalf("undisturbed it ends with %d and has %d results:\n%s", want, n, r.output)
	}
	hit, confirming := 0, 0
	for wanted := testenv.Times(25, 40); hit < wanted || confirming == 0 && hit < 10*wanted; {
		j := suspectJob(t)
		before := map[string]string{}
		for within := took; ; within += took / 4 { // a machine that has become slower also finishes
			r := j.start(t, args...)
			r.killWithin(time.Duration(random.Int64N(int64(within)))) // any moment is as good as another
			before = j.wantKept(t, before)
			code := r.cmd.ProcessState.ExitCode()
			if code == signalled {
				hit++
				plan, err := os.ReadFile(filepath.Join(j.directory(), result.PlanFile))
				_, resultErr := os.Stat(filepath.Join(j.directory(), result.ResultFile))
				if err == nil && resultErr != nil && strings.Contains(string(plan), `"confirm": {`) {
					confirming++
				}
				continue
			}
			if code != want {
				t.Fatalf("it ends with %d, want %d:\n%s", code, want, r.output)
			}
			break
		}
		j.wantLike(t, calm)
		then, err := result.ReadPlan(calm.directory())
		must(t, err)
		now, err := result.ReadPlan(j.directory())
		must(t, err)
		if !reflect.DeepEqual(now.Confirm, then.Confirm) || now.Confirm == nil {
			t.Fatalf("the plan confirms %+v, undisturbed %+v", now.Confirm, then.Confirm)
		}
	}
	t.Logf("%d kills, %d of them while confirmations were made", hit, confirming)
	if confirming == 0 {
		t.Error("this test has lost its point: no kill has hit a confirmation")
	}
}
