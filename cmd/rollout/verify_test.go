//go:build linux

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
)

// TestVerifyAgain runs changed tests in copies of kept environments, which do not change.
func TestVerifyAgain(t *testing.T) { verifyAgain(t, "environment.preserve_env=always", "") }

// TestVerifyOutcomesAgain does the same on kept outcomes, which the first tests have not changed.
func TestVerifyOutcomesAgain(t *testing.T) {
	verifyAgain(t, "environment.keep=outcome", "test -e /srv/verified-wrong && r=0.25\n")
}

// verifyAgain verifies trials again, with the setting set that keeps their environments or
// outcomes. without is removed from the second test.
func verifyAgain(t *testing.T, set, without string) {
	sideBySide(t, realProviders, func(t *testing.T, provider string) {
		j := hangingJob(t, provider, 2)
		test := filepath.Join(j.dir, "evals/hang/tests/test.sh")
		writeTest := func(want, without string) {
			t.Helper()
			// The line before the last would find files that an earlier verification left in the
			// same environment.
			must(t, os.WriteFile(test, []byte(`test "$(cat /srv/answer)" = `+want+` && r=1 || r=0
`+without+`test -e /srv/verified-`+want+` && r=0.5; touch /srv/verified-`+want+`
echo $r >/logs/verifier/reward.txt
`), 0o644))
		}
		writeTest("wrong", "")
		rewards := func(job string) (rewards []float64) {
			t.Helper()
			tree, err := result.ReadTree(filepath.Join(j.dir, "jobs", job))
			must(t, err)
			for _, trial := range tree.Trials {
				if trial.Reward == nil {
					t.Fatalf("no reward: %+v", trial)
				}
				rewards = append(rewards, *trial.Reward)
			}
			return rewards
		}
		defer func() { // what was kept
			p, err := open(provider)
			must(t, err)
			defer p.Close()
			listed, err := p.List(context.Background())
			must(t, err)
			for _, l := range listed {
				if l.Labels.Job == j.name {
					must(t, p.Remove(context.Background(), l.ID))
				}
			}
			j.wantLeft(t, 0, "after the test")
		}()
		if code := j.start(t, "job.yaml", "--set", "agents.0.execute=echo right >/srv/answer", "--set", set).exit(t); code != 0 {
			t.Fatalf("the job ended with %d", code)
		}
		writeTest("right", without)
		for _, name := range []string{"again", "once-more"} {
			r := j.start(t, "verify", filepath.Join("jobs", j.name), "--name", name)
			if code := r.exit(t); code != 0 {
				t.Errorf("verify ended with %d", code)
			}
			if got := rewards(name); len(got) != 2 || got[0] != 1 || got[1] != 1 {
				t.Errorf("rewards %v, want 1 and 1", got)
			}
		}
		if got := rewards(j.name); len(got) != 2 || got[0] != 0 || got[1] != 0 {
			t.Errorf("the first job's rewards have become %v", got)
		}
		j.wantLeft(t, 2, "after verifying again: what was kept")
	})
}

// TestVerifyStepsAgain runs changed tests of steps on the artifacts of each.
func TestVerifyStepsAgain(t *testing.T) { sideBySide(t, realProviders, verifyStepsAgain) }

// verifyStepsAgain verifies the trials of a task with steps again, in new environments: as the
// flag wants it where a step's tests ran in the environment of its agent, and as a matter of course
// where all tests run apart.
func verifyStepsAgain(t *testing.T, provider string) {
	j := hangingJob(t, provider, 2)
	must(t, os.RemoveAll(filepath.Join(j.dir, "evals/hang")))
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(j.dir, "evals/stepped", name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	write("task.toml", "version = \"1.0\"\nartifacts = [\"/srv/made\"]\nenvironment.docker_image = \""+imageFor(provider)+"\"\n"+
		"[[steps]]\nname = \"first\"\n[[steps]]\nname = \"second\"\nverifier.environment_mode = \"separate\"\n")
	for _, c := range []struct {
		name, set string
		flags     []string
		refusal   string // what verify says without the flags
	}{
		{"together", "verifier.environment=task", []string{"--from", "artifacts"}, "at the end of its step first, nothing of the environment was kept, but its artifacts are: --from artifacts"},
		{"apart", "verifier.environment=fresh", nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, step := range []string{"first", "second"} {
				write("steps/"+step+"/instruction.md", "Go on.\n")
				write("steps/"+step+"/tests/test.sh", "touch /srv/tested; echo 0 >/logs/verifier/reward.txt\n")
			}
			before := "jobs/" + c.name + "/" + j.name
			if code := j.start(t, "job.yaml", "--jobs-dir", "jobs/"+c.name, "--set", c.set, "--set", "agents.0.execute=echo working >>/srv/made").exit(t); code != 0 {
				t.Fatalf("the job ended with %d", code)
			}
			j.wantRewards(t, before, 0)
			for step, text := range map[string]string{"first": "1 ] && echo 0.25", "second": "2 ] && echo 0.75"} {
				write("steps/"+step+"/tests/test.sh", "[ ! -e /srv/tested ] && [ \"$(wc -l </srv/made)\" = "+text+" >/logs/verifier/reward.txt\n")
			}
			if c.refusal != "" {
				r := j.start(t, "verify", before)
				if code := r.exit(t); code != 2 || !strings.Contains(r.output.String(), c.refusal) {
					t.Errorf("without flags, verify ended with %d, and said not %q", code, c.refusal)
				}
			}
			if code := j.start(t, append([]string{"verify", before, "--name", j.name + "-again"}, c.flags...)...).exit(t); code != 0 {
				t.Errorf("verify ended with %d", code)
			}
			j.wantRewards(t, before+"-again", 0.5)
			j.wantLeft(t, 0, "after verifying again")
		})
	}
}
