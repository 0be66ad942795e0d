package cli

import (
	"bytes"
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/providers"
)

// TestJobStartsNoTrialsOnALowDisk: before a job, while it runs, and when there is room again.
func TestJobStartsNoTrialsOnALowDisk(t *testing.T) {
	dir := jobDir(t)
	var free atomic.Int64
	var asked, enough atomic.Int32
	withProvider(t, func(context.Context, map[string]any, providers.Host) (environment.Provider, error) {
		return newTried(), nil
	})
	run := func(args ...string) said {
		var stdout, stderr bytes.Buffer
		env := Env{
			Providers: offered,
			Stdin:     strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Dir: dir, Now: time.Now,
			Getenv: func(string) (string, bool) { return "", false },
			FreeDisk: func(string) (int64, error) {
				if n := enough.Load(); n > 0 && asked.Add(1) > n {
					return 0, nil
				}
				return free.Load(), nil
			},
		}
		return said{Main(t.Context(), context.Background(), env, args), stdout.String(), stderr.String()}
	}
	job := []string{"job.yaml", "--n-attempts", "4", "--n-concurrent", "1"}

	free.Store(512<<20 - 1)
	run(job...).check(t, command.ExitFailed, "511.9 MiB left", "rollout clean --images --env-type tried", "environment.min_free_disk: 0")
	noJobDirectory(t, dir)

	free.Store(512 << 20)
	enough.Store(3) // before the job, and for two trials
	run(job...).check(t, command.ExitFailed, "0 bytes left", "no more trials are started", "rollout resume jobs/nightly")
	tree, err := result.ReadTree(dir + "/jobs/nightly")
	if err != nil || len(tree.Trials) != 2 {
		t.Fatalf("%d results, want 2: %v", len(tree.Trials), err)
	}

	free.Store(0)
	enough.Store(0)
	run("resume", "jobs/nightly").check(t, command.ExitFailed, "rollout resume jobs/nightly")

	free.Store(512 << 20)
	run("resume", "jobs/nightly").check(t, command.ExitOK)
	if tree, err = result.ReadTree(dir + "/jobs/nightly"); err != nil || len(tree.Trials) != 4 {
		t.Errorf("%d results after resuming, want 4: %v", len(tree.Trials), err)
	}

	free.Store(0)
	run("job.yaml", "--name", "regardless", "--set", "environment.min_free_disk=0").check(t, command.ExitOK)
}
