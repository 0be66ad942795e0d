package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// command is the package of the binary.
const command = "github.com/org/rollout-action/cmd/rollout"

// hello is a minimal Go program.
const hello = "package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(\"hello\") }\n"

// versionRuns is the least number of processes to time.
const versionRuns = 20

// binary measures a binary built like a release.
func (b *bench) binary(ctx context.Context) error {
	b.logf("binary: building, then timing processes")
	source := filepath.Join(b.dir, "hello.go")
	if err := os.WriteFile(source, []byte(hello), 0o644); err != nil {
		return err
	}
	rollout, floor := filepath.Join(b.dir, "rollout"), filepath.Join(b.dir, "hello")
	if err := build(ctx, rollout, command); err != nil {
		return err
	}
	if err := build(ctx, floor, source); err != nil {
		return err
	}
	size, err := megabytes(rollout)
	if err != nil {
		return err
	}
	floorSize, err := megabytes(floor)
	if err != nil {
		return err
	}
	values, err := turns(ctx, 2, max(b.rounds, versionRuns), process(rollout, "version"), process(floor))
	if err != nil {
		return err
	}
	const line = "a Go program that prints a line"
	b.add(
		newResult("binary.size", "MB", series{"the stripped binary", []float64{size}},
			series{line, []float64{floorSize}}, atMost("ours", 45)),
		newResult("binary.version", "ms", series{"rollout version", values[0]},
			series{line, values[1]}, atMost("ours", 30)),
	)
	return nil
}

// build builds a static, stripped binary, like releases.
func build(ctx context.Context, target, source string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", target, source)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", source, err, out)
	}
	return nil
}

// megabytes returns a file's size in millions of bytes.
func megabytes(path string) (float64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return float64(info.Size()) / 1e6, nil
}

func process(name string, args ...string) measured {
	return timed(func(ctx context.Context) error { return exec.CommandContext(ctx, name, args...).Run() })
}
