package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/environment"
)

// scoreFile sets the priority with which the kernel ends a process when memory runs out.
const scoreFile = "/proc/self/oom_score_adj"

// findLowest is a bash script that prints the lowest score that it can give itself.
const findLowest = "for ((n = -1000; n <= 1000; n++)); do echo $n 2>/dev/null >/proc/$$/oom_score_adj && break; done; echo $n"

// Commands in a sandbox must not choose which process the kernel ends when memory runs out: process
// 1, with which all others end, keeps its score. Where root on this machine can limit the scores of
// others, no command gets below process 1; elsewhere no command gets a lower score than without
// Rollout.
func TestCommandsDoNotChooseWhatTheKernelEnds(t *testing.T) {
	before, err := os.ReadFile(scoreFile)
	if err != nil {
		t.Fatal(err)
	}
	own, err := strconv.Atoi(strings.TrimSpace(string(before)))
	if err != nil {
		t.Fatal(err)
	}
	p := newProvider(t, map[string]any{"base": baseHost, "dir": storeDir(t)})
	first := min(own+50, 1000)
	bash := func(script string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "bash", "-c", script).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", script, err, out)
		}
		return string(out)
	}
	without := "" // the capability to set how low others may go
	if p.store.mode == modeRoot {
		without = "setpriv --bounding-set=-sys_resource "
	}
	lowest := bash(fmt.Sprintf("echo %d >%s; exec %sbash -c '%s'", first, scoreFile, without, findLowest))
	t.Logf("commands have %d, and at least %s", first, lowest)

	bash(fmt.Sprintf("exec %sbash -c 'echo %d >/proc/%d/oom_score_adj'", without, first, os.Getpid()))
	defer os.WriteFile(scoreFile, before, 0o644)
	e := create(t, p, environment.CreateOptions{Image: testImage})
	if got := run(t, e, findLowest); got != lowest {
		t.Errorf("a command gave itself %q, the lowest is %q", got, lowest)
	}
	got := run(t, e, `
		first=$(cat /proc/1/oom_score_adj); echo $first
		for score in -1000 1000; do
			echo $score 2>/dev/null >/proc/1/oom_score_adj
			for i in {1..1000}; do [ $(cat /proc/1/oom_score_adj) = $first ] && break; sleep 0.1; done
			[ $(cat /proc/1/oom_score_adj) = $first ] || echo "process 1 has $score"
		done
		true`)
	if want := fmt.Sprintf("%d\n", first); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
