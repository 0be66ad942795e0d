// Package hubdigest computes the digest of a task by which a dataset.toml of Harbor names it. It
// knows no dataset.
package hubdigest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// The files and directories of a task that count. Source: Harbor 0.26,
// src/harbor/publisher/packager.py, Packager.collect_files.
var (
	singles     = []string{"task.toml", "instruction.md", "README.md", "trajectory.json"}
	directories = []string{"environment", "tests", "solution", "steps"}
)

// The files that say which files do not count: one at the top of the task, with the default that
// holds without it, and Harbor's own in directories of tests and solutions.
const (
	ignoreFile    = ".gitignore"
	ownIgnoreFile = ".harborignore"
	defaults      = "__pycache__/\n*.pyc\n.DS_Store\n*.swp\n*.swo\n*~\n"
)

// maxFiles limits the files of a task that are read.
const maxFiles = 200_000

// ErrUnknown is in the chain of the error if the digest of a task cannot be known here. The text
// says why.
var ErrUnknown = errors.New("its digest cannot be computed")

// Of returns the digest of a task, as "sha256:" and 64 hexadecimal digits. A link to a file counts
// as its content, and a link to a directory does not count, as in Harbor. Other errors are those of
// ctx and of reading.
func Of(ctx context.Context, fsys fs.FS) (string, error) {
	ignored, err := rulesOf(fsys)
	if err != nil {
		return "", err
	}
	files, err := list(ctx, fsys)
	if err != nil {
		return "", err
	}
	files = slices.DeleteFunc(files, ignored.match)
	slices.Sort(files) // Python compares code points, whose order is that of UTF-8's bytes
	all := sha256.New()
	for _, name := range files {
		sum, err := digest(ctx, fsys, name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(all, "%s\x00%s\n", name, sum)
	}
	return "sha256:" + hex.EncodeToString(all.Sum(nil)), nil
}

// list returns the files of a task that count, unless they are ignored.
func list(ctx context.Context, fsys fs.FS) (files []string, err error) {
	for _, name := range singles {
		if is, err := isFile(fsys, name); err != nil {
			return nil, err
		} else if is {
			files = append(files, name)
		}
	}
	for _, dir := range directories {
		info, err := fs.Stat(fsys, dir)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
			continue
		}
		if err != nil {
			return nil, err
		}
		if files, err = below(ctx, fsys, dir, files); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// below appends the files below a directory to files.
func below(ctx context.Context, fsys fs.FS, dir string, files []string) ([]string, error) {
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if e.Name() == ownIgnoreFile {
			return nil, fmt.Errorf("%w: the task has %s", ErrUnknown, name)
		}
		if e.IsDir() {
			if files, err = below(ctx, fsys, name, files); err != nil {
				return nil, err
			}
			continue
		}
		is, err := isFile(fsys, name)
		if err != nil {
			return nil, err
		}
		if is {
			files = append(files, name)
		}
		if len(files) > maxFiles {
			return nil, fmt.Errorf("%w: the task has more than %d files", ErrUnknown, maxFiles)
		}
	}
	return files, nil
}

// isFile reports whether a name is a file, or a link to one.
func isFile(fsys fs.FS, name string) (bool, error) {
	info, err := fs.Stat(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && info.Mode().IsRegular(), err
}

func digest(ctx context.Context, fsys fs.FS, name string) (string, error) {
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	f, err := fsys.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// rulesOf returns the rules for the files of a task that do not count.
func rulesOf(fsys fs.FS) (rules, error) {
	is, err := isFile(fsys, ignoreFile)
	if err != nil {
		return nil, err
	}
	if !is {
		return parse(defaults)
	}
	f, err := fsys.Open(ignoreFile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxIgnore+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxIgnore {
		return nil, fmt.Errorf("%w: %s is larger than %d bytes", ErrUnknown, ignoreFile, maxIgnore)
	}
	return parse(strings.ReplaceAll(strings.ReplaceAll(string(text), "\r\n", "\n"), "\r", "\n"))
}
