// Package harborfiles finds the files of a task that Harbor leaves out when it computes the digest
// in a dataset.toml, and when it copies tests and solutions into environments. It does not read
// datasets.
package harborfiles

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
	"unicode/utf8"
)

// The files and directories of a task that count. Source: Harbor 0.26,
// src/harbor/publisher/packager.py, Packager.collect_files.
var (
	singles     = []string{"task.toml", "instruction.md", "README.md", "trajectory.json"}
	directories = []string{"environment", "tests", "solution", "steps"}
)

// The file at the top of a task that says which files do not count, and what holds without it.
const (
	ignoreFile = ".gitignore"
	defaults   = "__pycache__/\n*.pyc\n.DS_Store\n*.swp\n*.swo\n*~\n"
)

// maxFiles limits the files of a task that are read.
const maxFiles = 200_000

// ErrUnknown is in the chain of the error if it cannot be known here which files Harbor leaves
// out. The text says why.
var ErrUnknown = errors.New("it is not known which files Harbor leaves out")

// Digest returns the digest of a task, as "sha256:" and 64 hexadecimal digits. A link to a file
// counts as its content, and a link to a directory does not count, as in Harbor. Other errors are
// those of ctx and of reading.
func Digest(ctx context.Context, fsys fs.FS) (string, error) {
	ignored, err := rulesOf(fsys)
	if err != nil {
		return "", err
	}
	l := lister{fsys: fsys, own: newRules(fsys)}
	if err := l.all(ctx); err != nil {
		return "", err
	}
	files := slices.DeleteFunc(l.files, func(name string) bool {
		excluded, _ := ignored.match(name)
		return excluded
	})
	slices.Sort(files) // Python compares code points, whose order is that of UTF-8's bytes
	all := sha256.New()
	for _, name := range files {
		sum, err := sumOf(ctx, fsys, name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(all, "%s\x00%s\n", name, sum)
	}
	return "sha256:" + hex.EncodeToString(all.Sum(nil)), nil
}

// lister lists the files of a task that count, but for those that .gitignore excludes.
type lister struct {
	fsys  fs.FS
	own   ownRules
	files []string
}

func (l *lister) all(ctx context.Context) error {
	for _, name := range singles {
		if is, err := isFile(l.fsys, name); err != nil {
			return err
		} else if is {
			l.files = append(l.files, name)
		}
	}
	for _, dir := range directories {
		info, err := fs.Stat(l.fsys, dir)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
			continue
		}
		if err != nil {
			return err
		}
		link, err := fs.Lstat(l.fsys, dir)
		if err != nil {
			return err
		}
		linked := link.Mode()&fs.ModeSymlink != 0
		excluded, err := l.own.excluded(dir, linked)
		if err == nil && !excluded {
			err = l.below(ctx, dir, linked)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// below adds the files below a directory. linked reports whether a link leads to the directory.
func (l *lister) below(ctx context.Context, dir string, linked bool) error {
	entries, err := fs.ReadDir(l.fsys, dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if strings.Contains(e.Name(), "\n") {
			return fmt.Errorf("%w: the name %q has a line break, which patterns of files match in no fixed way", ErrUnknown, name)
		}
		if excluded, err := l.own.excluded(name, linked || e.Type()&fs.ModeSymlink != 0); err != nil || excluded {
			if err != nil {
				return err
			}
			continue
		}
		if e.IsDir() {
			if err := l.below(ctx, name, linked); err != nil {
				return err
			}
			continue
		}
		is, err := isFile(l.fsys, name)
		if err != nil {
			return err
		}
		if is {
			l.files = append(l.files, name)
		}
		if len(l.files) > maxFiles {
			return fmt.Errorf("%w: the task has more than %d files", ErrUnknown, maxFiles)
		}
	}
	return nil
}

// isFile reports whether a name is a file, or a link to one.
func isFile(fsys fs.FS, name string) (bool, error) {
	info, err := fs.Stat(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && info.Mode().IsRegular(), err
}

func sumOf(ctx context.Context, fsys fs.FS, name string) (string, error) {
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
		return parse(ignoreFile, defaults, asDocumented)
	}
	text, err := readIgnore(fsys, ignoreFile)
	if err != nil {
		return nil, err
	}
	return parse(ignoreFile, text, asDocumented)
}

// readIgnore returns the text of a file of patterns.
func readIgnore(fsys fs.FS, name string) (string, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxIgnore+1))
	if err != nil {
		return "", err
	}
	if len(text) > maxIgnore {
		return "", fmt.Errorf("%w: %s is larger than %d bytes", ErrUnknown, name, maxIgnore)
	}
	if !utf8.Valid(text) {
		return "", fmt.Errorf("%w: %s is not UTF-8", ErrUnknown, name)
	}
	return string(text), nil
}
