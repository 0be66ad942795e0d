package app

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
)

// Paths are those of requests and job files, which begin at the current directory.
type Paths struct {
	Dir string // the current directory; "": the process's
	// Known replaces the paths of copies in a text by those that users know; nil: there are no copies.
	Known func(text string) string
}

// Path returns a path of a request or a job file, taken from the current directory.
func (p Paths) Path(path string) string {
	if filepath.IsAbs(path) || p.Dir == "" {
		return path
	}
	return filepath.Join(p.Dir, path)
}

// Shown returns a path as users would type it: relative to the current directory, if it is below it.
func (p Paths) Shown(path string) string {
	if !filepath.IsAbs(path) {
		return path
	}
	here, err := filepath.Abs(p.Path("."))
	if err != nil {
		return path
	}
	original := path
	if p.Known != nil {
		original = p.Known(path)
	}
	rel, err := filepath.Rel(here, original)
	if err != nil || !filepath.IsLocal(rel) {
		return path
	}
	return filepath.ToSlash(rel)
}

// shownTask returns the path of a task's file for messages; "" is the task itself.
func (p Paths) shownTask(t *task.Task, name string) string {
	if t.Origin != nil {
		return t.File(name)
	}
	return filepath.Join(p.Shown(t.Dir), filepath.FromSlash(name))
}

// checkJobDir returns a UsageError if what should be a job's directory is none.
func (p Paths) checkJobDir(dir string) error {
	switch info, err := os.Stat(p.Path(dir)); {
	case errors.Is(err, os.ErrNotExist):
		return usage("%s: there is no such directory (give the directory of a job, such as jobs/nightly)", clean(dir))
	case err == nil && !info.IsDir():
		return usage("%s is a file (give the directory of a job, such as jobs/nightly)", clean(dir))
	}
	return nil
}

// IsJobDir reports whether a path is the directory of a job.
func IsJobDir(paths Paths, path string) bool {
	return isFile(filepath.Join(paths.Path(path), result.PlanFile))
}

// same reports whether a path is a job's directory or the result.json in it.
func (p Paths) same(path, dir string) bool {
	job, err := os.Stat(p.Path(dir))
	if err != nil {
		return false
	}
	other := p.Path(path)
	if filepath.Base(other) == result.ResultFile {
		other = filepath.Dir(other)
	}
	info, err := os.Stat(other)
	return err == nil && os.SameFile(info, job)
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// isFile reports whether a path is something else than a directory.
func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir()
}
