package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"
)

// unboxed runs the scripts of a hello trial directly on this machine, and writes the files of a trial.
type unboxed struct {
	dir  string
	left sample
}

// newUnboxed returns an unboxed that writes below dir. job is the directory of a job of one trial, from which it reads the files.
func newUnboxed(dir, job string) (*unboxed, error) {
	left, err := readSample(job, 1)
	if err != nil {
		return nil, err
	}
	return &unboxed{dir, left}, os.MkdirAll(dir, 0o755)
}

// trial runs one hello trial: it creates directories and files, runs three scripts with bash, writes results, and removes
// everything.
func (u *unboxed) trial(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp(u.dir, "trial-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	root := filepath.Join(dir, "root")
	// The scripts name paths in an environment.
	there := strings.NewReplacer("/tmp/", root+"/tmp/", "/logs/", root+"/logs/")
	for _, directory := range []string{"tmp", "rollout", "logs/agent", "logs/verifier"} {
		if err := os.MkdirAll(filepath.Join(root, directory), 0o755); err != nil {
			return err
		}
	}
	files := []struct{ name, text string }{
		{"tmp/instruction.md", helloInstruction},
		{"rollout/install.sh", helloInstall},
		{"rollout/execute.sh", there.Replace(helloExecute)},
		{"rollout/test.sh", there.Replace(helloTest)},
	}
	for _, file := range files {
		if err := os.WriteFile(filepath.Join(root, file.name), []byte(file.text), 0o755); err != nil {
			return err
		}
	}
	for _, name := range []string{"install.sh", "execute.sh", "test.sh"} {
		cmd := exec.CommandContext(ctx, "bash", filepath.Join(root, "rollout", name))
		cmd.Env = append(os.Environ(), "ROLLOUT_TASK_INSTRUCTION="+root+"/tmp/instruction.md")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s without a sandbox: %w\n%s", name, err, out)
		}
	}
	reward, err := os.ReadFile(root + "/logs/verifier/reward.txt")
	if err != nil || !bytes.Equal(reward, []byte("1\n")) {
		return errors.Join(err, fmt.Errorf("the reward without a sandbox is %q", reward))
	}
	return u.left.write(filepath.Join(dir, "left"))
}

// each calls do with 0 to n-1, sandboxWorkers at a time.
func each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(sandboxWorkers)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}
