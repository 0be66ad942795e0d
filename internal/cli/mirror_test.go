package cli

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
)

// TestTasksThatLookFixedAreTriedAgain: with a baseline that runs today, six tasks that really broke
// are red although two look fixed, of which today's baseline passes one. Shards, merge and report
// come to the same.
func TestTasksThatLookFixedAreTriedAgain(t *testing.T) {
	t.Parallel()
	s := &suspects{T: t, dir: t.TempDir(), outcome: map[string][]string{}}
	agent := func(solves string) {
		s.write("job.yaml", fmt.Sprintf(`
environment: {type: fake}
n_concurrent_trials: 2
agents:
  - name: a
    execute: |
      read -r task < "$ROLLOUT_TASK_INSTRUCTION"
      case " %s " in *" $task "*) touch /solved ;; esac
datasets: [{path: evals}]
gate: {max_broken_tasks: 0, confirm: {attempts: 4}}
`, solves))
	}
	const broken = "b1 b2 b3 b4 b5 b6"
	for task := range strings.FieldsSeq(broken + " worse-today fixed fixed-anyway") {
		s.write("evals/"+task+"/task.toml", "version = \"1.0\"\n[environment]\ndocker_image = \"x\"\n")
		s.write("evals/"+task+"/instruction.md", task+"\n")
		s.write("evals/"+task+"/tests/test.sh", "if [ -e /solved ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi\n")
	}
	agent(broken + " fixed-anyway")
	commitAll(t, s.dir)
	agent(broken + " worse-today")
	s.rollout(0, "run", "job.yaml", "--name", "then")
	agent("fixed fixed-anyway")

	args := []string{"--baseline", "jobs/then", "--confirm-against", "main"}
	check := func(t *testing.T, name string) {
		t.Helper()
		s.says("6 tasks broke (passed in every attempt of the baseline, and in none now) and 1 was fixed, at most 0 may; 1 more task failed in the baseline, too, when tried again; chance alone does that in 3.5% of runs",
			"7 tasks looked broken and 2 fixed and had", "confirmed broken: passed 0 of 4 more attempts, and the baseline 4 of 4",
			"not broken by this change: the baseline passed 0 of 2 more attempts now", "confirmed fixed: passed 4 of 4 more attempts, and the baseline none of 4",
			"not fixed by this change: the baseline passed 1 of 1 more attempt now")
		var plan result.Plan
		if err := json.Unmarshal([]byte(s.read("jobs/"+name+"/plan.json")), &plan); err != nil {
			t.Fatal(err)
		}
		if plan.Confirm == nil || !plan.Confirm.Both || len(plan.Confirm.Tasks) != 9 || len(plan.Confirm.Fixed) != 2 {
			t.Errorf("the plan confirms %+v", plan.Confirm)
		}
	}
	s.rollout(1, append([]string{"run", "job.yaml", "--name", "pr", "--junit", "junit.xml", "--log-format", "plain"}, args...)...)
	check(t, "pr")
	s.says("7 tasks look broken and 2 fixed: up to 4 attempts more of both, to be sure", "note: tasks that look broken or fixed are tried again with main")
	if text := s.read("junit.xml"); !strings.Contains(text, "confirmed fixed: passed 4 of 4 more attempts") {
		t.Errorf("the JUnit file does not say it:\n%s", text)
	}
	s.rollout(1, "report", "jobs/pr", "--baseline", "jobs/then")
	check(t, "pr")
	// Without the baseline that was compared, nothing that it needs is claimed.
	s.rollout(0, "report", "jobs/pr", "--baseline", "none")
	if text := s.out.String(); strings.Contains(text, "confirmed fixed") || strings.Contains(text, "not broken") {
		t.Errorf("without the baseline it says:\n%s", text)
	}

	for _, shard := range []string{"1/2", "2/2"} {
		s.rollout(0, append([]string{"run", "job.yaml", "--name", "parts", "--shard", shard}, args...)...)
	}
	dirs, err := filepath.Glob(filepath.Join(s.dir, "jobs/parts*shard-*"))
	if err != nil || len(dirs) != 4 {
		t.Fatal(dirs, err)
	}
	s.rollout(1, append([]string{"merge", "--baseline", "jobs/then"}, dirs...)...)
	check(t, "parts")

	// With --against, the tasks are compared with those of the commit: six broke, and one is
	// fixed.
	s.rollout(1, "run", "job.yaml", "--name", "beside", "--against", "main")
	s.says("6 tasks broke (passed in every attempt of the baseline, and in none now) and 1 was fixed", "confirmed fixed: passed 4 of 4 more attempts, and the baseline none of 4")

	// The job alone cannot tell: seven look broken, and two fixed.
	s.rollout(0, "run", "job.yaml", "--name", "alone", "--baseline", "jobs/then")
	s.says("before they were tried again, 7 tasks looked broken and 2 fixed: chance alone does that in 5.5% of runs")
}
