package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// binary measures a static, stripped binary, built like releases.
func (b *bench) binary(ctx context.Context) error {
	path := filepath.Join(b.dir, "rollout")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "github.com/org/rollout-action/cmd/rollout")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build rollout: %w\n%s", err, out)
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	b.add("binary.size", []float64{float64(info.Size()) / 1e6})
	return b.measure(ctx, "binary.version", process(path, "version"), nil)
}

// process measures the duration of a process.
func process(name string, args ...string) measured {
	return timed(func(ctx context.Context) error {
		out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%s %q: %w\n%s", name, args, err, out)
		}
		return err
	})
}
