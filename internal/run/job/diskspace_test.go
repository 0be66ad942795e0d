package job

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/trial"
)

func TestWatermark(t *testing.T) {
	there := t.TempDir()
	disks := []Disk{{What: "results", Dir: filepath.Join(there, "not", "yet")}, {What: "images", Dir: "/images"}}
	for _, tc := range []struct {
		name string
		min  int64
		free map[string]int64
		says []string // nothing: there is room
	}{
		{"both have enough", 1 << 30, map[string]int64{there: 1 << 30, "/": 1 << 40}, nil},
		{"the first has not", 1 << 30, map[string]int64{there: 1<<30 - 1, "/": 1 << 40}, []string{"results", there, "1023.9 MiB", "environment.min_free_disk is 1.0 GiB"}},
		{"the second has not", 2 << 20, map[string]int64{there: 1 << 30, "/": 3}, []string{"images", "/images", "3 bytes", "2.0 MiB"}},
		{"one tells nothing", 1 << 30, map[string]int64{there: 1 << 30}, nil},
		{"it is off", 0, map[string]int64{there: 0, "/": 0}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := Watermark{Min: tc.min, Disks: disks, Free: func(dir string) (int64, error) {
				n, ok := tc.free[dir]
				if !ok {
					return 0, os.ErrPermission
				}
				return n, nil
			}}.Check()
			if (err == nil) != (tc.says == nil) {
				t.Fatalf("got %v", err)
			}
			for _, text := range tc.says {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%q does not say %q", err, text)
				}
			}
		})
	}
	if n, err := freeDisk(there); err != nil || n <= 0 {
		t.Errorf("this machine has %d bytes free, %v", n, err)
	}
}

func TestFullDiskStartsNoMoreTrials(t *testing.T) {
	list := specs(20)
	tree, rec := newTree(t, list), &recorder{}
	var running atomic.Int32
	full := make(chan struct{})
	runner := runnerFunc(func(ctx context.Context, spec trial.Spec) trial.Outcome {
		if running.Add(1) == 4 {
			close(full)
		}
		<-full
		if ctx.Err() != nil {
			return stopped(spec.Key)
		}
		return passed(spec.Key)
	})
	opts := options(tree, runner, rec)
	noRoom := errors.New("the disk is full")
	opts.CheckDisk = func() error {
		select {
		case <-full:
			return noRoom
		default:
			return nil
		}
	}
	job, err := Run(t.Context(), list, opts)
	if !errors.Is(err, noRoom) {
		t.Errorf("Run returned %v", err)
	}
	if job.CompletedTrials != 4 || job.SkippedTrials != 16 || job.FailedTrials != 0 {
		t.Errorf("the trials that ran did not go on to their end: %+v", job.Summary)
	}
	if rec.count(event.Notice) != 1 {
		t.Errorf("%d notices, want one", rec.count(event.Notice))
	}
	onDisk, err := result.ReadTree(tree.Dir)
	if err != nil || len(onDisk.Trials) != 4 {
		t.Errorf("%d results are on disk, %v", len(onDisk.Trials), err)
	}
}

// TestErrorsAreMarkedWhileTheProviderIsUnreachable: only the infrastructure's errors, and only
// while the provider is unreachable.
func TestErrorsAreMarkedWhileTheProviderIsUnreachable(t *testing.T) {
	gone := &environment.Error{Kind: environment.KindUnavailable, Err: errors.New("the engine does not answer any more")}
	for _, c := range []struct {
		name  string
		room  error
		kind  result.ErrorType
		marks bool
	}{
		{"lost with the engine", gone, result.EnvironmentLost, true},
		{"not started for it", gone, result.EnvironmentStartFailed, true},
		{"the agent's own", gone, result.AgentExecutionFailed, false},
		{"cancelled", gone, result.Cancelled, false},
		{"lost, and the engine is there", nil, result.EnvironmentLost, false},
		{"lost, and the disk is full", errors.New("the disk is full"), result.EnvironmentLost, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			list := specs(4)
			tree, rec := newTree(t, list), &recorder{}
			var ended atomic.Bool
			opts := options(tree, runnerFunc(func(_ context.Context, spec trial.Spec) trial.Outcome {
				ended.Store(true)
				out := passed(spec.Key)
				out.Trial.Reward, out.Trial.Error = nil, &result.Error{Type: c.kind, Message: "why"}
				return out
			}), rec)
			opts.Workers = 1
			opts.CheckDisk = func() error {
				if ended.Load() {
					return c.room
				}
				return nil
			}
			if _, err := Run(t.Context(), list, opts); c.room != nil && !errors.Is(err, c.room) {
				t.Errorf("Run returned %v", err)
			}
			onDisk, err := result.ReadTree(tree.Dir)
			if err != nil || len(onDisk.Trials) == 0 {
				t.Fatalf("%d results are on disk, %v", len(onDisk.Trials), err)
			}
			if c.room != nil && len(onDisk.Trials) != 1 {
				t.Errorf("%d trials ran, want one", len(onDisk.Trials))
			}
			for _, trial := range onDisk.Trials {
				if trial.EndedUnreachable() != c.marks {
					t.Errorf("%s: %+v", trial.Key, trial.Error)
				}
			}
		})
	}
}
