package harborfiles

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/task/taskdir"
)

// ownIgnoreFile says which files of its directory do not count. Only those of tests and solutions
// are read; none counts itself.
const ownIgnoreFile = ".harborignore"

// maxComparisons limits how often names are compared with patterns of such files, because a hostile
// task can have many of both.
const maxComparisons = 2_000_000

// maxLinks limits the links that lead to a file, as Linux does.
const maxLinks = 40

// ownRules are the rules of a task's files of that name. Source: Harbor 0.26,
// src/harbor/models/task/file_filter.py, TaskFileFilter.
type ownRules struct {
	fsys fs.FS
	of   map[string]rules // by directory, of those that were read
	left int              // comparisons
}

func newRules(fsys fs.FS) ownRules {
	return ownRules{fsys: fsys, of: map[string]rules{}, left: maxComparisons}
}

// excluded reports whether a file or directory does not count. linked reports whether the name is
// that of a link, or leads through one: then its target must count, too. The directories above it
// are not excluded.
func (o *ownRules) excluded(name string, linked bool) (bool, error) {
	if excluded, err := o.match(name, strings.Count(name, "/")); err != nil || excluded || !linked {
		return excluded, err
	}
	target, err := o.resolve(name)
	if err != nil || target == "" || target == name {
		return false, err
	}
	return o.match(target, 0)
}

// match reports whether the rules exclude a name, or a directory above it that has from slashes or
// more.
func (o *ownRules) match(name string, from int) (bool, error) {
	if path.Base(name) == ownIgnoreFile {
		return true, nil
	}
	parts := strings.Split(name, "/")
	var above []string // directories in scope with rules
	for i := range parts {
		if dir := strings.Join(parts[:i], "/"); inScope(dir + "/") {
			if err := o.read(dir); err != nil {
				return false, err
			}
			if len(o.of[dir]) > 0 {
				above = append(above, dir)
			}
		}
		if i < from || len(above) == 0 {
			continue
		}
		at := strings.Join(parts[:i+1], "/")
		if i < len(parts)-1 || taskdir.IsDir(o.fsys, name) {
			at += "/"
		}
		excluded := false
		for _, dir := range above {
			if o.left -= len(o.of[dir]); o.left < 0 {
				return false, fmt.Errorf("%w: the task has too many files for the patterns in %s", ErrUnknown, ownIgnoreFile)
			}
			if is, decided := o.of[dir].match(strings.TrimPrefix(at, dir+"/")); decided {
				excluded = is
			}
		}
		if excluded {
			return true, nil
		}
	}
	return false, nil
}

// inScope reports whether files of patterns in a directory, whose name ends with a slash, are read:
// it is the directory of tests or a solution, of the task or a step, or below that.
func inScope(name string) bool {
	parts := strings.Split(name, "/")
	if parts[0] == "steps" && len(parts) > 2 {
		parts = parts[2:]
	}
	return len(parts) > 1 && (parts[0] == "tests" || parts[0] == "solution")
}

// read reads the rules of a directory, if it has not yet.
func (o *ownRules) read(dir string) error {
	if _, known := o.of[dir]; known {
		return nil
	}
	name := path.Join(dir, ownIgnoreFile)
	if _, err := fs.Lstat(o.fsys, name); errors.Is(err, fs.ErrNotExist) {
		o.of[dir] = nil
		return nil
	}
	info, err := fs.Stat(o.fsys, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %s is a link that leads nowhere", ErrUnknown, name)
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%w: %s is not a file", ErrUnknown, name)
	}
	text, err := readIgnore(o.fsys, name)
	if err == nil {
		o.of[dir], err = parse(name, text, asGit)
	}
	return err
}

// resolve returns a name without links; "" if they lead out of the task or in circles.
func (o *ownRules) resolve(name string) (string, error) {
	done, rest := ".", strings.Split(name, "/")
	for links := 0; len(rest) > 0; {
		next := path.Join(done, rest[0])
		rest = rest[1:]
		if next == ".." {
			return "", nil
		}
		info, err := fs.Lstat(o.fsys, next)
		switch {
		case errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode()&fs.ModeSymlink == 0:
			done = next
			continue
		case err != nil:
			return "", err
		}
		target, err := fs.ReadLink(o.fsys, next)
		if err != nil {
			return "", err
		}
		if links++; links > maxLinks || path.IsAbs(target) {
			return "", nil
		}
		rest = slices.Concat(strings.Split(target, "/"), rest)
	}
	return done, nil
}
