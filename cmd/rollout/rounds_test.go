//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/org/rollout-action/internal/test/fake"
	"github.com/org/rollout-action/internal/test/testenv"
)

// inRounds creates a repository with a job that ends when its verdict is clear, and its baseline.
// The agent solves each task in the commit "good", and none in the working tree. So a drop is
// proven after two of three rounds, each of six trials.
func inRounds(t *testing.T) job {
	t.Helper()
	j := job{dir: t.TempDir(), name: "rounds", provider: fake.Name}
	file := `
name: rounds
n_attempts: 3
n_concurrent_trials: 2
environment: {type: fake}
agents:
  - name: a
    files: [./agent]
    execute: |
      echo working
      sleep 0.02
      . /agent/solve
datasets: [{path: evals}]
gate: {max_pass_rate_drop: 0.05, stop: early}
`
	j.runBaseline(t, map[string]string{
		"job.yaml": file, "base.yaml": "name: base" + file[len("\nname: rounds"):],
		"agent/solve": "echo 1 > /tmp/answer\n", ".gitignore": "jobs\n",
	}, "x", "one", "two", "three", "four", "five", "six")
	for _, args := range [][]string{{"init", "--quiet"}, {"add", "."}, {"commit", "--quiet", "-m", "one"}, {"tag", "good"}} {
		cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
		cmd.Dir = j.dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	must(t, os.WriteFile(filepath.Join(j.dir, "agent/solve"), []byte("echo 0 > /tmp/answer\n"), 0o644))
	return j
}

// verdict matches the lines of the verdict about the limit and about why the rounds ended. A job
// that is killed when its rounds have ended says the reason there alone.
var verdict = regexp.MustCompile(`(?m)^  \S .*(max_pass_rate_drop|Ended after).*$`)

// TestKilledRoundsDecideTheSame kills jobs between and during the rounds of their attempts,
// continues them, and compares trials and verdict with those of an undisturbed job.
func TestKilledRoundsDecideTheSame(t *testing.T) {
	testenv.Long(t, "jobs are killed many times between rounds")
	t.Parallel()
	original := inRounds(t)
	for _, compare := range [][]string{{"--baseline", "jobs/base"}, {"--against", "good"}} {
		t.Run(compare[0], func(t *testing.T) {
			t.Parallel()
			args := append([]string{"run", "job.yaml", "--resume", "--log-format", "plain"}, compare...)
			repeat := func() job {
				j := original
				j.dir = t.TempDir()
				must(t, os.CopyFS(j.dir, os.DirFS(original.dir)))
				return j
			}
			sides := func(j job) []job {
				if compare[0] == "--baseline" {
					return []job{j}
				}
				base := j
				base.name = filepath.Base(j.baseline(t, "jobs"))
				return []job{j, base}
			}
			calm := repeat()
			r := calm.start(t, args...)
			code := r.exit(t)
			said := verdict.FindAllString(r.output.String(), -1)
			if n := len(calm.results(t)); code != 1 || n != 12 || len(said) < 2 {
				t.Fatalf("undisturbed it ends with %d, has %d results and says %q:\n%s", code, n, said, r.output)
			}
			random := seed(t)
			hit, between := 0, 0
			for wanted := testenv.Times(8, 40); hit < wanted || between == 0 && hit < 10*wanted; {
				j := repeat()
				before := map[string]string{}
				for {
					enough := len(before) + 1 + random.IntN(3)
					if len(before) < 6 && random.IntN(2) == 0 {
						enough = 6 // the first round has ended
					}
					r = j.start(t, args...)
					code = j.killWhen(t, random, r, enough)
					before = j.wantKept(t, before)
					if code == 1 {
						break
					}
					if code != signalled && code != 130 {
						t.Fatalf("it ends with %d:\n%s", code, r.output)
					}
					hit++
					if len(before) == 6 {
						between++
					}
				}
				if now := verdict.FindAllString(r.output.String(), -1); !slices.Equal(now, said) {
					t.Errorf("it says %q, undisturbed %q", now, said)
				}
				undisturbed := sides(calm)
				for i, side := range sides(j) {
					side.wantLike(t, undisturbed[i])
				}
			}
			t.Logf("%d kills, %d of them after the first round", hit, between)
			if between == 0 {
				t.Error("this test has lost its point: no kill was between two rounds")
			}
		})
	}
}
