package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/cache"
	"github.com/org/rollout-action/internal/config"
	"github.com/org/rollout-action/internal/dataset"
	"github.com/org/rollout-action/internal/diag"
	"github.com/org/rollout-action/internal/git"
	"github.com/org/rollout-action/internal/plural"
	"github.com/org/rollout-action/internal/quantity"
	"github.com/org/rollout-action/internal/task"
)

// The variables that say how datasets are fetched and kept.
const (
	credentialsVariable = "ROLLOUT_GIT_CREDENTIALS"
	cacheSizeVariable   = "ROLLOUT_CACHE_SIZE"
)

// parents returns the parents of the commit that is checked out; nil if they are not known. Only a workflow needs them.
func (a *app) parents(checkout task.Checkout) []string {
	if a.getenv("GITHUB_ACTIONS") != "true" || checkout.Commit == nil || checkout.Objects == "" {
		return nil
	}
	opts := git.Options{Timeout: 30 * time.Second}
	if a.Environ != nil {
		opts.Environ = a.Environ()
	}
	parents, err := git.New(opts).Parents(a.hard, checkout.Objects, *checkout.Commit)
	if err != nil {
		return nil // GitHub is asked
	}
	return parents
}

// source returns the source of datasets. It is closed when the command ends.
func (a *app) source() *dataset.Source {
	opts := git.Options{}
	if a.Environ != nil {
		opts.Environ = a.Environ()
	}
	if hosts, _ := a.Getenv(credentialsVariable); hosts != "" {
		for host := range strings.SplitSeq(hosts, ",") {
			opts.CredentialHosts = append(opts.CredentialHosts, strings.TrimSpace(host))
		}
	}
	s := &dataset.Source{
		Git:    git.New(opts),
		Notify: func(text string) { fmt.Fprintf(a.Stderr, "datasets: %s\n", clean(text)) },
	}
	if a.guard != nil {
		s.Admit = a.guard.admit
	}
	s.Cache, s.CacheErr = a.cache()
	*a.opened = append(*a.opened, s)
	return s
}

// cache returns Rollout's cache.
func (a *app) cache() (*cache.Cache, error) {
	root, err := cache.Root(a.Getenv)
	if err != nil {
		return nil, err
	}
	size := int64(0)
	if text, _ := a.Getenv(cacheSizeVariable); text != "" {
		if size, err = quantity.Bytes(text); err != nil || size <= 0 {
			return nil, usage("%s=%s: want an amount, as in 20G", cacheSizeVariable, text)
		}
	}
	return cache.New(root, size), nil
}

// loadDatasets loads the datasets of a job and its single tasks, and notes in it the formats that it left open.
func (a *app) loadDatasets(ctx context.Context, loaded *config.Loaded) ([]*dataset.Set, diag.List, error) {
	s := a.source()
	s.Include, s.Exclude = loaded.Job.IncludeTasks, loaded.Job.ExcludeTasks
	refs := make([]dataset.Ref, len(loaded.Job.Datasets))
	for i, ds := range loaded.Job.Datasets {
		at := loaded.DatasetAt[i]
		refs[i] = dataset.Ref{
			Name: ds.Name, Dir: loaded.DatasetDirs[i], Registry: loaded.Registries[i], Version: ds.Version,
			Options: a.taskOptions(loaded.Job, ds.Format),
			Select: dataset.Selection{
				Include: ds.Tasks, Exclude: ds.ExcludeTasks, Metadata: ds.Metadata, N: ds.NTasks, Seed: ds.Seed,
			},
			Place: diag.Diagnostic{File: at.File, Line: at.Line, Column: at.Column},
		}
	}
	sets, warnings, err := s.Load(ctx, refs)
	if err != nil {
		return nil, nil, err
	}
	for i, set := range sets {
		if open := settle(&loaded.Job.Datasets[i].Format, set); open {
			warnings = append(warnings, madeForHarbor(set, loaded.DatasetAt[i], "format")...)
		}
	}
	if len(loaded.TaskDirs) > 0 {
		set, err := dataset.FromPaths(ctx, config.TasksDataset, loaded.TaskDirs, a.taskOptions(loaded.Job, loaded.Job.TasksFormat))
		if err != nil {
			return nil, nil, err
		}
		if open := settle(&loaded.Job.TasksFormat, set); open {
			warnings = append(warnings, madeForHarbor(set, config.Place{File: loaded.File}, "tasks_format")...)
		}
		sets = append(sets, set)
	}
	return sets, warnings, nil
}

// settle notes in the job the format that a set was loaded in, so that config.json records what was run. It reports whether the
// job had left that open.
func settle(format *config.Format, set *dataset.Set) bool {
	open := *format == ""
	*format = config.Format(set.Format)
	return open
}

// madeForHarbor warns of tasks on disk that are read by Rollout's rules, because no format is given, and look as if they were
// made for Harbor: at least half of those that can be read have a sign of it.
func madeForHarbor(set *dataset.Set, at config.Place, key string) diag.List {
	if set.Format != task.FormatRollout {
		return nil
	}
	signs, readable, first := 0, 0, ""
	for _, t := range set.Tasks {
		if t.Missing {
			continue
		}
		readable++
		if sign := t.HarborSign(); sign != "" {
			signs++
			first = cmp.Or(first, fmt.Sprintf("%s: %s", t.Name, sign))
		}
	}
	if signs == 0 || 2*signs < readable {
		return nil
	}
	return diag.List{{
		File: at.File, Line: at.Line, Column: at.Column, Severity: diag.Warning,
		Message: clean(fmt.Sprintf("%d of %s of dataset %q look made for Harbor (%s), and are read by Rollout's rules", signs, plural.Count(readable, "task"), set.Name, first)),
		Hint:    fmt.Sprintf("say %s: harbor, or rollout if that is right; validate of a directory: --task-format harbor", key),
	}}
}
