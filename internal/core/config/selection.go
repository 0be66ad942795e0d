package config

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/fields"
)

// Selection are flags that apply to all datasets of a job. They set keys of each dataset, so
// config.json shows what ran.
type Selection struct {
	Datasets []string // only datasets whose name matches one of these globs; empty: all
	NTasks   *int     // n_tasks of each; nil: the file's
	Seed     *int     // seed of each; nil: the file's
	Metadata []string // KEY=VALUE, added to the metadata of each; of several values for one key, one is enough
}

// flagsOfSelection sets the keys of all datasets. Call it before they are checked.
func (c datasetsCheck) flagsOfSelection() {
	sel, job := c.opts.Selection, &c.out.Job
	metadata, ok := c.flagMetadata(sel.Metadata)
	if !ok || sel.NTasks == nil && sel.Seed == nil && len(metadata) == 0 {
		return
	}
	if len(job.Datasets) == 0 {
		c.Add(fields.Place{File: "--n-tasks, --sample-seed, --metadata"}, "use --task", "the job has no datasets to select from, only tasks")
		return
	}
	if n := sel.NTasks; n != nil && *n < 1 {
		c.Add(fields.Place{File: fmt.Sprintf("--n-tasks %d", *n)}, "", "n_tasks must be at least 1")
		return
	}
	for i := range job.Datasets {
		ds := &job.Datasets[i]
		if sel.NTasks != nil {
			ds.NTasks = *sel.NTasks
		}
		if sel.Seed != nil {
			ds.Seed = *sel.Seed
		}
		if len(metadata) > 0 {
			ds.Metadata = maps.Clone(ds.Metadata)
			if ds.Metadata == nil {
				ds.Metadata = map[string]any{}
			}
			maps.Copy(ds.Metadata, metadata)
		}
	}
}

func (c datasetsCheck) flagMetadata(pairs []string) (map[string]any, bool) {
	out, ok := map[string]any{}, true
	for _, pair := range pairs {
		key, value, found := strings.Cut(pair, "=")
		if !found || key == "" || value == "" {
			c.Add(fields.Place{File: "--metadata " + fields.Shorten(pair)}, "write it like --metadata difficulty=easy", "this is not KEY=VALUE")
			ok = false
			continue
		}
		values, _ := out[key].([]any)
		out[key] = append(values, value)
	}
	return out, ok
}

// selection checks the keys that select tasks of a dataset.
func (c datasetsCheck) selection(ds Dataset, at fields.Path) {
	for i, pattern := range ds.Tasks {
		c.glob(at.Child("tasks").Index(i), pattern)
	}
	for i, pattern := range ds.ExcludeTasks {
		c.glob(at.Child("exclude_tasks").Index(i), pattern)
	}
	c.metadata(ds.Metadata, at.Child("metadata"))
	if c.Root.Given("datasets") != nil && ds.NTasks == 0 && ds.Seed != 0 {
		c.Warn(c.Root.Locate(at.Child("seed"), false), "add n_tasks", "%s.seed has no effect without n_tasks", at)
	}
}

// metadata checks the values that [metadata] of a task is to have, at a key.
func (d *decoder) metadata(wanted map[string]any, at fields.Path) {
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		p := at.Child(key)
		values, isList := wanted[key].([]any)
		if !isList {
			values = []any{wanted[key]}
		}
		if len(values) == 0 {
			d.Problem(p, "remove the key", "%s has no values, so no task would match", p)
		}
		for _, v := range values {
			switch v.(type) {
			case string, bool, int, float64:
			default:
				d.Problem(p, "write a value, or a list of values", "%s must be text, a number or true or false, or a list of such", p)
			}
		}
	}
}

// onlyDatasets removes the datasets that Selection.Datasets does not match. Call it after datasets
// have their names.
func (c datasetsCheck) onlyDatasets() {
	wanted := c.opts.Selection.Datasets
	if len(wanted) == 0 || c.BadBelow(fields.Path{"datasets"}) {
		return
	}
	job := &c.out.Job
	names := c.datasetNames()
	for _, pattern := range wanted {
		if slices.ContainsFunc(names, func(name string) bool { return matchesName(pattern, name) }) {
			continue
		}
		hint := "there are: " + strings.Join(names, ", ")
		if near := diag.DidYouMean(pattern, names); near != "" {
			hint = near + " " + hint
		}
		c.Add(fields.Place{File: "--dataset " + fields.Shorten(pattern)}, hint, "there is no such dataset in the job")
	}
	keep := func(name string) bool {
		return slices.ContainsFunc(wanted, func(pattern string) bool { return matchesName(pattern, name) })
	}
	if !keep(TasksDataset) {
		job.Tasks = nil
	}
	left := slices.DeleteFunc(slices.Clone(names), keep)
	slices.Sort(left)
	c.out.NotSelected.Datasets = slices.Compact(left)
	kept := 0
	for i, ds := range job.Datasets {
		if keep(ds.Name) {
			job.Datasets[kept] = ds
			c.out.DatasetDirs[kept], c.out.Registries[kept], c.out.DatasetAt[kept] = c.out.DatasetDirs[i], c.out.Registries[i], c.out.DatasetAt[i]
			kept++
		}
	}
	job.Datasets = job.Datasets[:kept]
	c.out.DatasetDirs, c.out.Registries, c.out.DatasetAt = c.out.DatasetDirs[:kept], c.out.Registries[:kept], c.out.DatasetAt[:kept]
}

func matchesName(pattern, name string) bool {
	ok, _ := path.Match(pattern, name)
	return ok || pattern == name
}
