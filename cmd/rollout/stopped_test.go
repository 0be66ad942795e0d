//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/result"
)

// sleepsThrough stops a process for a while, during which the processes that it started continue.
func sleepsThrough(t *testing.T, r *run, pause time.Duration) {
	t.Helper()
	must(t, r.cmd.Process.Signal(syscall.SIGSTOP))
	time.Sleep(pause)
	must(t, r.cmd.Process.Signal(syscall.SIGCONT))
}

// TestSuspendedTimeIsNotInTimeouts: while rollout is stopped, its agents continue. An agent that
// ends meanwhile is not late, and one that never ends still times out.
func TestSuspendedTimeIsNotInTimeouts(t *testing.T) {
	sideBySide(t, realProviders, func(t *testing.T, provider string) {
		for _, test := range []struct {
			name, then string
			want       result.ErrorType // "": a reward
		}{
			{"ends meanwhile", "sleep 3", ""},
			{"never ends", "sleep 3600", result.AgentExecutionTimeout},
		} {
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				j := hangingJob(t, provider, 2)
				for name, change := range map[string][2]string{
					"job.yaml":             {"setsid nohup sleep " + j.mark + " &\n      echo working\n      sleep " + j.mark, "echo working\n      " + test.then},
					"evals/hang/task.toml": {"timeout_sec = 3600", "timeout_sec = 10"},
				} {
					path := filepath.Join(j.dir, name)
					text, err := os.ReadFile(path)
					must(t, err)
					changed := strings.Replace(string(text), change[0], change[1], 1)
					if changed == string(text) {
						t.Fatalf("nothing to replace in %s", text)
					}
					must(t, os.WriteFile(path, []byte(changed), 0o644))
				}
				r := j.start(t, "job.yaml")
				j.waitRunning(t, 2)
				sleepsThrough(t, r, 17*time.Second)
				r.exit(t)
				for attempt := range 2 {
					var trial result.Trial
					data, err := os.ReadFile(filepath.Join(j.dir, "jobs", j.name, fmt.Sprintf("hanger/evals/hang__%d", attempt+1), result.ResultFile))
					must(t, err)
					must(t, json.Unmarshal(data, &trial))
					var got result.ErrorType
					if trial.Error != nil {
						got = trial.Error.Type
					}
					if got != test.want || (trial.Reward != nil) != (test.want == "") {
						t.Errorf("attempt %d: error %+v, reward %v", attempt+1, trial.Error, trial.Reward)
					}
				}
				j.wantLeft(t, 0, "at the end")
			})
		}
	})
}

// TestSuspendedTimeIsNotInGrace: a job that is cancelled and then stopped still removes its
// environments.
func TestSuspendedTimeIsNotInGrace(t *testing.T) {
	sideBySide(t, realProviders, func(t *testing.T, provider string) {
		j := hangingJob(t, provider, 3)
		r := j.start(t, "job.yaml")
		j.waitRunning(t, 3)
		must(t, r.cmd.Process.Signal(syscall.SIGTERM))
		sleepsThrough(t, r, 12*time.Second)
		if code := r.exit(t); code != 130 {
			t.Errorf("the exit code is %d", code)
		}
		j.wantLeft(t, 0, "after the cancel")
	})
}
