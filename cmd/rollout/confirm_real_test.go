//go:build linux

package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/testenv"
)

// pullRequest creates a directory with a baseline, in jobs/base, and a job whose agent is worse: it
// has broken one task, crashes at another, passes a third only at the third attempt, and solves a
// fourth as before. Attempts are counted outside of its environments, by the results in the job's
// directory. While the directory has a file "hold", confirmation attempts at the broken task never
// end.
func pullRequest(t *testing.T, provider, mark string) job {
	t.Helper()
	j := job{dir: t.TempDir(), name: "pr", provider: provider, mark: mark}
	must(t, os.Chmod(j.dir, 0o755))
	var config, outside string
	if provider == "docker" {
		config = fmt.Sprintf("{mounts: [%q]}", j.dir+":/outside:ro")
		outside = "tried() { ls -d /outside/jobs/pr*/solver/evals/$1__*/result.json 2>/dev/null | wc -l; }; held() { [ -e /outside/hold ]; }"
	} else { // it does not show this machine's files, which a test could change
		config = "{base: host, network: host}"
		outside = fmt.Sprintf("tried() { exec 3<>/dev/tcp/127.0.0.1/%d; echo \"$1\" >&3; cat <&3; }; held() { [ \"$(tried hold)\" = 1 ]; }", j.countTries(t))
	}
	files := map[string]string{}
	for name, execute := range map[string]string{
		"base": "echo 1 > /tmp/answer",
		"pr": fmt.Sprintf(`%s
      echo 0 > /tmp/answer
      case "$(cat "$ROLLOUT_TASK_INSTRUCTION")" in
      *broken*)
        if [ "$(tried broken)" -ge 1 ] && held; then echo working; sleep %s; fi ;;
      *crash*) exit 7 ;;
      *flaky*) if [ "$(tried flaky)" -ge 2 ]; then echo 1 > /tmp/answer; fi ;;
      *steady*) echo 1 > /tmp/answer ;;
      esac`, outside, mark),
	} {
		files[name+".yaml"] = fmt.Sprintf(`
name: %s
n_concurrent_trials: 2
environment: {type: %s, provider_config: %s}
agents:
  - name: solver
    execute: |
      %s
datasets: [{path: evals}]
gate: {max_broken_tasks: 0, noise: ignore, confirm: {attempts: 3, max_tasks: 3}}
`, name, provider, config, execute)
	}
	j.runBaseline(t, files, testenv.Image, "broken", "crash", "flaky", "steady")
	return j
}

// countTries serves a TCP port, which it returns: a client that sends a task's name receives the
// number of the job's results for it, and one that sends "hold" receives 1 if that file exists.
func (j job) countTries(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if task, err := bufio.NewReader(conn).ReadString('\n'); err == nil {
				pattern := filepath.Join(j.dir, "jobs/pr*/solver/evals", strings.TrimSpace(task)+"__*", result.ResultFile)
				if task == "hold\n" {
					pattern = filepath.Join(j.dir, "hold")
				}
				found, _ := filepath.Glob(pattern)
				fmt.Fprintln(conn, len(found))
			}
			conn.Close()
		}
	}()
	return listener.Addr().(*net.TCPAddr).Port
}

// wantVerdict checks the results of the attempts at the tasks that looked broken, and that they are
// not counted in totals.
func (j job) wantVerdict(t *testing.T, output string) {
	t.Helper()
	res := j.result(t)
	var got []string
	for _, o := range res.Confirmations.All() {
		outcome := string(o.Error)
		if o.Reward != nil {
			outcome = fmt.Sprint(*o.Reward)
		}
		got = append(got, fmt.Sprintf("%s__%d %s", o.Task, o.Attempt, outcome))
	}
	want := []string{
		"broken__2 0", "broken__3 0", "broken__4 0",
		"crash__2 agent_execution_failed", "crash__3 agent_execution_failed", "crash__4 agent_execution_failed",
		"flaky__2 0", "flaky__3 1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the confirmation attempts are %q, want %q", got, want)
	}
	if res.TotalTrials != 4 || res.Results.Len() != 4 || res.PassRateAll != 0.25 || res.FailedTrials != 1 || res.SkippedTrials != 0 || res.Cancelled || res.ConfirmationTrials != len(want) {
		t.Errorf("result.json says %+v", res.Summary)
	}
	said := strings.Join(strings.Fields(output), " ")
	for _, text := range []string{
		"solver/evals/broken 1.0 → 0.0 (confirmed broken: passed 0 of 3 more attempts)",
		"solver/evals/crash 1.0 → no reward (confirmed broken: passed 0 of 3 more attempts)",
		"solver/evals/flaky 1.0 → 0.0 (not broken: passed 1 of 2 more attempts)",
		"2 tasks broke", "1 more task passed when tried again (flaky)", "3 tasks looked broken and had 8 further attempts (gate.confirm), which enter no rate",
	} {
		if !strings.Contains(said, text) {
			t.Errorf("it does not say %q:\n%s", text, output)
		}
	}
	j.wantLeft(t, 0, "after the job")
}

func TestConfirmationsOnRealProviders(t *testing.T) {
	realProviders(t, func(t *testing.T, provider string) {
		mark := fmt.Sprintf("3600.%d", time.Now().UnixNano())
		calm := pullRequest(t, provider, mark)
		r := calm.start(t, "run", "pr.yaml", "--baseline", "jobs/base")
		if code := r.exit(t); code != 1 {
			t.Errorf("exit code %d, want 1", code)
		}
		calm.wantVerdict(t, r.output.String())

		t.Run("one task at most", func(t *testing.T) { // chosen by the hash of its name; the flaky one has had enough attempts to pass
			r := calm.start(t, "run", "pr.yaml", "--name", "pr-one", "--baseline", "jobs/base", "--set", "gate.confirm.max_tasks=1")
			if code := r.exit(t); code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			res := job{dir: calm.dir, name: "pr-one"}.result(t)
			for _, o := range res.Confirmations.All() {
				if o.Task != "crash" {
					t.Errorf("%s was tried again", o.Key)
				}
			}
			if res.Confirmations.Len() != 3 || res.PassRateAll != 0.5 {
				t.Errorf("%d confirmation attempts; result.json says %+v", res.Confirmations.Len(), res.Summary)
			}
			if said := strings.Join(strings.Fields(r.output.String()), " "); !strings.Contains(said, "2 tasks broke (passed in every attempt of the baseline, and in none now), at most 0 may; 1 of them for errors alone; 1 task looks broken and had no further attempt with a verdict: 1 of these count, in proportion to the others") {
				t.Errorf("it does not say that one task was not tried again:\n%s", said)
			}
		})
		t.Run("shards", func(t *testing.T) {
			j := pullRequest(t, provider, mark)
			for _, shard := range []string{"1/2", "2/2"} {
				if code := j.start(t, "run", "pr.yaml", "--baseline", "jobs/base", "--shard", shard).exit(t); code != 0 {
					t.Errorf("shard %s ends with %d", shard, code)
				}
			}
			r := j.start(t, "merge", "jobs/pr.shard-1-of-2", "jobs/pr.shard-2-of-2", "--baseline", "jobs/base")
			if code := r.exit(t); code != 1 {
				t.Errorf("the merge ends with %d, want 1", code)
			}
			j.wantVerdict(t, r.output.String())
		})
		for name, signal := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "cancelled": syscall.SIGINT} {
			t.Run(name, func(t *testing.T) {
				j := pullRequest(t, provider, mark)
				hold := filepath.Join(j.dir, "hold")
				must(t, os.WriteFile(hold, nil, 0o644))
				r := j.start(t, "run", "pr.yaml", "--baseline", "jobs/base")
				j.waitFor(t, "solver/evals/broken__2/command/stdout.txt", "working")
				j.waitFor(t, "solver/evals/flaky__2/result.json", "{") // the others continue
				must(t, r.cmd.Process.Signal(signal))
				code := r.exit(t)
				if signal == syscall.SIGINT {
					if code != 130 {
						t.Errorf("exit code %d, want 130", code)
					}
					if want := "Resume it with: rollout resume jobs/pr --baseline jobs/base"; !strings.Contains(r.output.String(), want) {
						t.Errorf("it does not say %q", want)
					}
					j.wantLeft(t, 0, "after the cancel")
				}
				before := j.results(t)
				must(t, os.Remove(hold))
				if r := j.start(t, "report", "jobs/pr", "--baseline", "jobs/base"); r.exit(t) != 1 || !strings.Contains(r.output.String(), "incomplete") {
					t.Errorf("the report does not say that confirmation attempts are missing:\n%s", r.output)
				}
				r = j.start(t, "resume", "jobs/pr", "--baseline", "jobs/base")
				if code := r.exit(t); code != 1 {
					t.Errorf("the resume ends with %d, want 1", code)
				}
				j.wantKept(t, before)
				j.wantVerdict(t, r.output.String())
				moved, err := filepath.Glob(filepath.Join(j.directory(), result.SupersededDir, "*/*/*"))
				must(t, err)
				if len(moved) != 1 || filepath.Base(moved[0]) != "broken__2" {
					t.Errorf("%q were moved away, want the attempt that the signal hit", moved)
				}
				lines := j.outputs(t)
				for line, n := range lines {
					if n != 1 {
						t.Errorf("outputs.jsonl has %d times %s", n, line)
					}
				}
				if len(lines) != 4+8 {
					t.Errorf("outputs.jsonl has %d lines, want %d", len(lines), 4+8)
				}
				wantNoSleepers(t, j)
			})
		}
	})
}

// waitFor waits until a file in the job's directory contains a text.
func (j job) waitFor(t *testing.T, file, text string) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		found, err := os.ReadFile(filepath.Join(j.directory(), filepath.FromSlash(file)))
		if err == nil && strings.Contains(string(found), text) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after two minutes %s does not say %q, but %q (%v)", file, text, found, err)
		}
		time.Sleep(20 * time.Millisecond) // polls
	}
}
