package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// validate measures the processor's time of rollout validate over a directory of tasks in Harbor's
// format, each with 20 files of code and data that only it has, and a file that all have.
func (b *bench) validate(ctx context.Context) error {
	program := filepath.Join(b.dir, "validate-rollout")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/rollout").CombinedOutput(); err != nil {
		return fmt.Errorf("%w: go build: %w\n%s", errUnmeasurable, err, out)
	}
	tasks := filepath.Join(b.dir, "validate", "tasks")
	for n := range validateTasks {
		if err := writeHarborTask(filepath.Join(tasks, fmt.Sprintf("task-%05d", n)), n); err != nil {
			return fmt.Errorf("write the tasks: %w", err)
		}
	}
	return b.measure(ctx,
		measuring{"validate.time", cpuOf(program, "validate", "--task-format", "harbor", tasks), cpuOf("grep", "-rEc", "AKIA[0-9A-Z]{16}|ghp_[0-9A-Za-z]{36}|BEGIN [A-Z ]*PRIVATE KEY", tasks)})
}

// cpuOf measures the processor's time of a process, in milliseconds. A status of 1 is an answer.
func cpuOf(name string, args ...string) measured {
	return func(ctx context.Context) (float64, error) {
		cmd := exec.CommandContext(ctx, name, args...)
		err := cmd.Run()
		if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() > 1 || ctx.Err() != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		return float64(cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()) / 1e6, nil
	}
}

// writeHarborTask writes a valid task.
func writeHarborTask(dir string, n int) error {
	files := map[string]string{
		"task.toml":              "version = \"1.0\"\n[agent]\ntimeout_sec = 60.0\n[verifier]\ntimeout_sec = 60.0\n",
		"instruction.md":         strings.Repeat(fmt.Sprint("Do number ", n, " in /app, and write the answer to /app/answer.txt.\n"), 20),
		"environment/Dockerfile": "FROM debian:bookworm\nWORKDIR /app\nCOPY . /app\n",
		"environment/data.csv":   strings.Repeat("name,token,value,0123456789abcdef\n", 2000), // the same in all
		"solution/solve.sh":      "#!/bin/bash\necho done > /app/answer.txt\n",
		"tests/test.sh":          "#!/bin/bash\ngrep -q done /app/answer.txt\necho $((1 - $?)) > /logs/verifier/reward.txt\n",
	}
	for i := range 20 {
		files[fmt.Sprintf("environment/src/module_%02d.py", i)] = strings.Repeat(fmt.Sprintf("def function_%d_%d(key, value):\n    password = lookup(key)\n    return value or password\n\n", n, i), 25)
	}
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
