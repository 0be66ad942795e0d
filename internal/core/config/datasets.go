package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/fields"
	"github.com/org/rollout-action/internal/lib/git"
)

// TasksDataset is the name of the dataset made of a job file's tasks list.
const TasksDataset = "tasks"

// datasetsCheck checks the key datasets and the flags that select from it.
type datasetsCheck struct{ *checker }

// check resolves datasets to directories and registries, and names each.
func (c datasetsCheck) check() {
	job := &c.out.Job
	if len(job.Datasets)+len(job.Tasks) == 0 && !c.BadBelow(fields.Path{"datasets"}) && !c.BadBelow(fields.Path{"tasks"}) {
		c.Add(c.Root.Locate(fields.Path{"datasets"}, true), "add datasets: with a path or a registry, or tasks:", "the job has no tasks to run")
	}
	names := c.newNames("datasets", "set name on one of them")
	if len(job.Tasks) > 0 {
		names.take(TasksDataset, fields.Path{"tasks"}, fields.Path{"tasks"})
	}
	c.flagsOfSelection()
	for i := range job.Datasets {
		ds, at := &job.Datasets[i], fields.Path{"datasets"}.Index(i)
		dir, registry := "", ""
		ok := !c.BadBelow(at)
		switch {
		case ds.Registry != nil:
			registry = c.registry(ds, at)
		case ds.Path != "":
			dir = c.admit(resolve(c.source.dir, ds.Path))
			if ok {
				c.directory(ds, dir, at)
			}
		case ok:
			c.Problem(at, "add path: with a directory of tasks, or registry:", "%s has neither path nor registry", at)
		}
		c.out.DatasetDirs = append(c.out.DatasetDirs, dir)
		c.out.Registries = append(c.out.Registries, registry)
		c.out.DatasetAt = append(c.out.DatasetAt, c.Root.Locate(at, false))
		c.selection(*ds, at)
		if ds.Name != "" && !c.Bad(at) {
			names.takePlain(ds.Name, at, at)
		}
	}
	c.onlyDatasets()
}

// directory checks a dataset that is a directory.
func (c datasetsCheck) directory(ds *Dataset, dir string, at fields.Path) {
	if ds.Version != "" {
		c.Problem(at.Child("version"), "remove it, or name a registry", "%s.version has no effect for a directory", at)
	}
	c.directoryExists(ds.Path, dir, at.Child("path"))
	if ds.Name == "" {
		ds.Name = filepath.Base(dir)
	}
}

// directoryExists checks that a dataset's directory exists.
func (c datasetsCheck) directoryExists(path, dir string, p fields.Path) {
	info, err := os.Stat(dir)
	switch {
	case err == nil && info.IsDir():
	case err == nil:
		c.Problem(p, "name the directory that contains the tasks", "%s is not a directory", dir)
	case errors.Is(err, fs.ErrNotExist):
		c.Problem(p, c.elsewhere(path), "there is no directory %s", dir)
	default:
		c.Problem(p, "", "%s: %v", p, err)
	}
}

// tasks resolves tasks to directories. A missing directory is only a warning: its trials fail
// (task_not_found), and the others can run.
func (c *checker) tasks() {
	names := c.newNames("tasks", "rename one of the directories, or make them two datasets")
	for i, task := range c.out.Job.Tasks {
		at := fields.Path{"tasks"}.Index(i)
		dir := c.admit(resolve(c.source.dir, task))
		c.out.TaskDirs = append(c.out.TaskDirs, dir)
		if c.Bad(at) {
			continue
		}
		names.take(filepath.Base(dir), at, at)
		if isDir(dir) || c.Full(diag.Warning) {
			continue
		}
		if other := c.elsewhere(task); other != "" {
			c.Warn(c.Root.Locate(at, false), other, "there is no directory %s", dir)
		}
	}
}

// datasetNames returns the names of all datasets, including that of the tasks.
func (c *checker) datasetNames() []string {
	var names []string
	for _, ds := range c.out.Job.Datasets {
		names = append(names, ds.Name)
	}
	if len(c.out.Job.Tasks) > 0 {
		names = append(names, TasksDataset)
	}
	return names
}

// admit returns the path to read a file or directory from. The first error of Options.Admit ends
// the load.
func (c *checker) admit(path string) string {
	admitted, err := c.opts.admit(path)
	if err != nil {
		c.refused = cmp.Or(c.refused, err)
		return path
	}
	return admitted
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// elsewhere returns the hint for a path that does not exist relative to the job file, such as that
// it exists relative to the current directory. It returns "" if it has none.
func (c *checker) elsewhere(path string) string {
	if strings.HasPrefix(path, "~") {
		return "~ is not expanded; write the path in full"
	}
	return c.fromHere(path, isDir)
}

// elsewhereFile returns the hint of elsewhere for a file.
func (c *checker) elsewhereFile(path string) string { return c.fromHere(path, isFile) }

// elsewhereAny returns the hint of elsewhere for a file or a directory.
func (c *checker) elsewhereAny(path string) string {
	return cmp.Or(c.fromHere(path, exists), "paths begin at the job file's directory")
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func (c *checker) fromHere(path string, there func(string) bool) string {
	if c.Full(diag.Error) {
		return ""
	}
	if hint := git.SubmoduleHint(resolve(c.source.dir, path)); hint != "" {
		return hint
	}
	here := resolve(c.opts.Dir, path)
	if c.source.dir == c.opts.Dir || !there(here) {
		if near := nearby(resolve(c.source.dir, path)); near != "" {
			return fmt.Sprintf("did you mean %q?", filepath.ToSlash(filepath.Join(filepath.Dir(path), near)))
		}
		return ""
	}
	if rel, err := filepath.Rel(c.source.dir, here); err == nil {
		here = rel
	}
	return "paths begin at the job file's directory; from there it is " + filepath.ToSlash(here)
}
