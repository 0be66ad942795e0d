package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// TasksDataset is the name of the dataset that the tasks list of a job file forms.
const TasksDataset = "tasks"

// datasets resolves datasets to folders and gives every one its name.
func (c *checker) datasets() {
	job := &c.out.Job
	if len(job.Datasets)+len(job.Tasks) == 0 && !c.badBelow(keyPath{"datasets"}) && !c.badBelow(keyPath{"tasks"}) {
		c.add(c.root.locate(keyPath{"datasets"}, true), "add datasets: with a path, or tasks:", "the job has no tasks to run")
	}
	names := c.newNames("datasets", "set name on one of them")
	if len(job.Tasks) > 0 {
		names.take(TasksDataset, keyPath{"tasks"}, keyPath{"tasks"})
	}
	for i := range job.Datasets {
		ds, at := &job.Datasets[i], keyPath{"datasets"}.index(i)
		dir := resolve(c.source.dir, ds.Path)
		c.out.DatasetDirs = append(c.out.DatasetDirs, dir)
		if c.bad[at.String()] || c.bad[at.child("path").String()] {
			continue
		}
		c.datasetDir(ds.Path, dir, at.child("path"))
		if ds.Name == "" {
			ds.Name = filepath.Base(dir)
		}
		names.take(ds.Name, at, at)
	}
}

// tasks resolves tasks to folders. One that does not exist is a matter of its own trials
// (task_not_found), so that the others can run.
func (c *checker) tasks() {
	names := c.newNames("tasks", "rename one of the folders, or make them two datasets")
	for i, task := range c.out.Job.Tasks {
		at := keyPath{"tasks"}.index(i)
		dir := resolve(c.source.dir, task)
		c.out.TaskDirs = append(c.out.TaskDirs, dir)
		if c.bad[at.String()] {
			continue
		}
		names.take(filepath.Base(dir), at, at)
		if other := c.elsewhere(task); !isDir(dir) && other != "" {
			c.warn(c.root.locate(at, false), other, "there is no folder %s", dir)
		}
	}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// elsewhere is the hint for a path that does not exist from the job file's folder: it may from the
// current one. It is "" when there is nothing to say.
func (c *checker) elsewhere(path string) string {
	if strings.HasPrefix(path, "~") {
		return "~ is not expanded; write the path in full"
	}
	here := resolve(c.opts.Dir, path)
	if c.source.dir == c.opts.Dir || !isDir(here) {
		return ""
	}
	if rel, err := filepath.Rel(c.source.dir, here); err == nil {
		here = rel
	}
	return "paths begin at the job file's folder; from there it is " + filepath.ToSlash(here)
}

// datasetDir checks that a dataset's folder is there.
func (c *checker) datasetDir(path, dir string, p keyPath) {
	info, err := os.Stat(dir)
	switch {
	case err == nil && info.IsDir():
	case err == nil:
		c.problem(p, "give the folder that holds the tasks", "%s is not a folder", dir)
	case errors.Is(err, fs.ErrNotExist):
		c.problem(p, c.elsewhere(path), "there is no folder %s", dir)
	default:
		c.problem(p, "", "%s: %v", p, err)
	}
}
