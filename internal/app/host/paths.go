package host

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
)

// Paths resolves and prints the paths of requests and job files, which are relative to the current
// directory.
type Paths struct {
	Dir string // the current directory; "": the process's
	// Known replaces the paths of copies in a text by the original ones; nil: there are no copies.
	Known func(text string) string
}

// Path resolves a path of a request or a job file relative to the current directory.
func (p Paths) Path(path string) string {
	if filepath.IsAbs(path) || p.Dir == "" {
		return path
	}
	return filepath.Join(p.Dir, path)
}

// Shown returns a path as users would type it: relative if it is below the current directory.
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

// ShownTask returns the path of a task's file for messages; "" names the task itself.
func (p Paths) ShownTask(t *task.Task, name string) string {
	if t.Origin != nil {
		return t.File(name)
	}
	return filepath.Join(p.Shown(t.Dir), filepath.FromSlash(name))
}

// CheckJobDir returns a UsageError if dir is not a job's directory.
func (p Paths) CheckJobDir(dir string) error {
	switch info, err := os.Stat(p.Path(dir)); {
	case errors.Is(err, os.ErrNotExist):
		return Usagef("%s: there is no such directory (give the directory of a job, such as jobs/nightly)", Clean(dir))
	case err == nil && !info.IsDir():
		return Usagef("%s is a file (give the directory of a job, such as jobs/nightly)", Clean(dir))
	}
	return nil
}

// IsJobDir reports whether a path is the directory of a job.
func IsJobDir(paths Paths, path string) bool {
	return IsFile(filepath.Join(paths.Path(path), result.PlanFile))
}

// SameJob reports whether a path is a job's directory or the result.json in it.
func (p Paths) SameJob(path, dir string) bool {
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

// IsDir reports whether a path is a directory.
func IsDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// IsFile reports whether a path exists and is not a directory.
func IsFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir()
}
