package proof

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/git"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/run/dataset"
)

// selectTasks keeps the tasks that a request selects. The notes describe the selection.
func selectTasks(ctx context.Context, l *stages.Loaded, req ProveRequest) (notes []string, err error) {
	if req.Since != "" {
		changed, err := changedTasks(ctx, l.Tasks(), req.Since)
		if err != nil {
			return nil, err
		}
		total := len(l.Tasks())
		keep(l, func(_ int, t *task.Task) bool { return changed[t] })
		notes = append(notes, fmt.Sprintf("%d of %s changed since %s", len(l.Tasks()), plural.Count(total, "task"), req.Since))
	}
	if shard := req.Shard; shard != nil {
		total := len(l.Tasks())
		keep(l, func(i int, _ *task.Task) bool { return i%shard.Total == shard.Index-1 })
		l.Job.Name += ".tasks-" + reporting.ShardName(*shard)
		notes = append(notes, fmt.Sprintf("this is part %s: %d of %s", shard, len(l.Tasks()), plural.Count(total, "task")))
	}
	return notes, nil
}

// keep keeps the tasks that are wanted, by their index among all.
func keep(l *stages.Loaded, wanted func(i int, t *task.Task) bool) {
	i := 0
	var sets []*dataset.Set
	for _, set := range l.Sets {
		kept := *set
		kept.Tasks = nil
		for _, t := range set.Tasks {
			if wanted(i, t) {
				kept.Tasks = append(kept.Tasks, t)
			}
			i++
		}
		sets = append(sets, &kept)
	}
	l.Sets = sets
}

// changedTasks returns the tasks with a file that changed since this branch began. Tasks outside
// repositories cannot be compared, so they are included.
func changedTasks(ctx context.Context, tasks []*task.Task, since string) (map[*task.Task]bool, error) {
	client := git.New(git.Options{})
	files := map[string][]string{} // by repository, sorted
	changed := map[*task.Task]bool{}
	inGit := false
	for _, t := range tasks {
		top := topOf(t)
		if top == "" {
			changed[t] = true
			continue
		}
		inGit = true
		if _, known := files[top]; !known {
			names, err := client.Changed(ctx, top, since)
			if errors.Is(err, git.ErrNoCommit) {
				return nil, host.Usagef("--changed %s: %w", host.Clean(since), err)
			}
			if err != nil {
				return nil, fmt.Errorf("find what changed since %s: %w", host.Clean(since), err)
			}
			files[top] = names
		}
		changed[t] = holds(files[top], t.RepoPath)
	}
	if !inGit && len(tasks) > 0 {
		return nil, host.Usagef("--changed %s: the tasks are in no git repository", host.Clean(since))
	}
	return changed, nil
}

// topOf returns the root of the repository that a task is in; "" outside git.
func topOf(t *task.Task) string {
	real, err := filepath.EvalSymlinks(t.Dir)
	if err != nil || t.RepoPath == "" {
		return ""
	}
	if t.RepoPath == "." {
		return real
	}
	return strings.TrimSuffix(real, string(filepath.Separator)+filepath.FromSlash(t.RepoPath))
}

// holds reports whether one of the files is in a directory.
func holds(files []string, dir string) bool {
	return dir == "." && len(files) > 0 ||
		slices.ContainsFunc(files, func(name string) bool { return strings.HasPrefix(name, dir+"/") })
}
