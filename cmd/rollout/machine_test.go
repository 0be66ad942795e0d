//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
)

// TestOpenFileLimitIsAMachineFault: whatever the limit on open files, no task is reported as
// invalid, and no cancel is reported.
func TestOpenFileLimitIsAMachineFault(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	write("job.yaml", `
environment: {type: fake}
n_concurrent_trials: 12
retry: {max_attempts: 1}
agents: [{name: oracle}, {name: writer, execute: "echo hello"}]
datasets: [{path: evals}]
`)
	for i := range 12 {
		task := fmt.Sprintf("evals/t%d/", i)
		write(task+"task.toml", "version = \"1.0\"\n")
		write(task+"environment/Dockerfile", "FROM x\n")
		write(task+"instruction.md", "Do it.\n")
		write(task+"solution/solve.sh", "true\n")
		write(task+"tests/test.sh", "echo 1 >/logs/verifier/reward.txt\n")
	}
	kinds := map[int]int{}
	for files := 10; files <= 40; files += 3 {
		name := fmt.Sprintf("with-%d", files)
		r := startWith(t, dir, "sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$@"`, files), "sh", fakeBinary, "run", "job.yaml", "--name", name)
		code := r.exit(t)
		kinds[code]++
		if code != 0 && code != 3 {
			t.Errorf("with %d files the exit code is %d:\n%s", files, code, r.output)
		}
		// The output of a passing job may also mention it: in the warning of a trial whose logs
		// could not be copied completely.
		if code == 3 && !strings.Contains(r.output.String(), "too many open files") {
			t.Errorf("with %d files the output does not name the reason:\n%s", files, r.output)
		}
		trials, err := filepath.Glob(filepath.Join(dir, "jobs", name, "*/*/*", result.ErrorFile))
		must(t, err)
		for _, file := range trials {
			text, err := os.ReadFile(file)
			must(t, err)
			kind, _, _ := strings.Cut(string(text), ":")
			if len(text) > 0 && !result.ErrorType(kind).Infrastructure() {
				t.Errorf("with %d files, %s says %s", files, file, text)
			}
		}
	}
	if kinds[0] == 0 || kinds[3] == 0 {
		t.Errorf("the exit codes are %v: the test has not seen both ends", kinds)
	}
}

// TestChildrenInheritOpenFileLimit: the process raises its own limit, and the processes that it
// starts get the old one back.
func TestChildrenInheritOpenFileLimit(t *testing.T) {
	needSandbox(t)
	j := hangingJob(t, "sandbox", 1)
	text, err := os.ReadFile(filepath.Join(j.dir, "job.yaml"))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(j.dir, "job.yaml"), []byte(strings.Replace(string(text), "setsid nohup", `echo "$(ulimit -Sn) $(ulimit -Hn)"; exit 0; setsid nohup`, 1)), 0o644))
	r := startWith(t, j.dir, "sh", "-c", `ulimit -Sn 300 && ulimit -Hn 4000 && exec "$@"`, "sh", binary, "run", "job.yaml")
	if code := r.exit(t); code != 0 {
		t.Errorf("the exit code is %d", code)
	}
	got, err := os.ReadFile(filepath.Join(j.dir, "jobs", j.name, "hanger/evals/hang__1/command/stdout.txt"))
	must(t, err)
	if string(got) != "300 4000\n" {
		t.Errorf("an agent's limits are %q", got)
	}
}
