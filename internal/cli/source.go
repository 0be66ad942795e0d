package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/org/rollout-action/internal/cache"
	"github.com/org/rollout-action/internal/config"
	"github.com/org/rollout-action/internal/dataset"
	"github.com/org/rollout-action/internal/diag"
	"github.com/org/rollout-action/internal/git"
	"github.com/org/rollout-action/internal/quantity"
)

// The variables that say how datasets are fetched and kept.
const (
	credentialsVariable = "ROLLOUT_GIT_CREDENTIALS"
	cacheSizeVariable   = "ROLLOUT_CACHE_SIZE"
)

// source is where datasets are had from. It is closed when the command ends.
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
	s.Cache, s.CacheErr = a.cache()
	*a.opened = append(*a.opened, s)
	return s
}

// cache is Rollout's cache.
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

// loadDatasets loads the datasets of a job.
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
	return s.Load(ctx, refs)
}
