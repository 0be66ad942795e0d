package reuse

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/nofollow"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/run/job/linktree"
	"github.com/org/rollout-action/internal/run/trial"
)

// TakeOver puts found trials into the tree, with all of their files: linked if possible, copied if
// not. It writes a trial's result last, so that an incomplete directory has none. It stops when ctx
// ends, and returns the trials that are in the tree, also with an error. prompt returns the tasks'
// instructions for outputs.jsonl.
func TakeOver(ctx context.Context, tree *job.Tree, found []Found, prompt func(dataset, task string) []result.Message) ([]result.Trial, error) {
	tree.UsePrompts(prompt)
	var mu sync.Mutex
	var taken []result.Trial
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2 * runtime.GOMAXPROCS(0))
	for _, f := range found {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			if err := takeOver(tree, f); err != nil {
				return fmt.Errorf("take over %s from %s: %w", f.Trial.Key, f.source.Label, err)
			}
			mu.Lock()
			defer mu.Unlock()
			taken = append(taken, f.Trial)
			return nil
		})
	}
	err := group.Wait()
	slices.SortFunc(taken, func(a, b result.Trial) int { return a.Key.Compare(b.Key) })
	return taken, err
}

func takeOver(tree *job.Tree, f Found) error {
	if err := tree.Supersede(f.Trial.Key); err != nil {
		return err
	}
	dir := tree.TrialDir(f.Trial.Key)
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	if f.source.outcomes != nil { // the files stay in the job that ran it
		return tree.WriteTrial(trial.Outcome{Trial: f.Trial})
	}
	source, err := openTrial(f.source.Dir, f.Trial.Key)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := nofollow.OpenDir(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer target.Close()
	linker := linktree.Linker{Without: result.ResultFile}
	if err := linker.Link(source, target, filepath.Base(dir)); err != nil {
		return err
	}
	return tree.WriteTrial(trial.Outcome{Trial: f.Trial})
}
