//go:build linux

package main

import (
	"context"
	"os"
	"path/filepath"
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
