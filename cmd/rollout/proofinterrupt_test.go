//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// An interruption is no error of the tasks whose proofs it kept from running.
func TestAnInterruptedProofCountsWhatDidNotRun(t *testing.T) {
	dir := t.TempDir()
	for i := range 6 {
		solution := "sleep 600\n"
		if i == 0 {
			solution = "touch /tmp/solved\n"
		}
		for name, text := range map[string]string{
			"task.toml": "version = \"1.0\"\nenvironment.docker_image = \"debian:bookworm\"\n", "instruction.md": "Solve it.\n", "solution/solve.sh": solution,
			"tests/test.sh": "test -e /tmp/solved && echo 1 >/logs/verifier/reward.txt || echo 0 >/logs/verifier/reward.txt\n",
		} {
			file := filepath.Join(dir, "evals", fmt.Sprintf("t%d", i), name)
			must(t, os.MkdirAll(filepath.Dir(file), 0o755))
			must(t, os.WriteFile(file, []byte(text), 0o644))
		}
	}
	r := start(t, dir, "validate", "--run", "evals", "--name", "p", "--runs", "1", "--env-type", "sandbox", "--set", "environment.provider_config.base=host", "--n-concurrent", "2")
	done := filepath.Join(dir, "jobs/p/oracle/evals/t0__1/result.json")
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(done); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("no run has ended")
		}
	}
	must(t, r.cmd.Process.Signal(syscall.SIGINT))
	code, text := r.exit(t), r.output.String()
	if code != 130 || !regexp.MustCompile(`(?m)^[01] of 6 proven, [56] not run because of the interruption$`).MatchString(text) {
		t.Errorf("exit code %d, want 130 and how many were not run", code)
	}
	if strings.Contains(text, "? error") || strings.Contains(text, "[not-run]") {
		t.Error("it takes the interruption for an error of tasks")
	}
}
