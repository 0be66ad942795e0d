package agentfiles

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/org/rollout-action/internal/core/task"
)

// ignoreFile is the name of the files with git's ignore patterns.
const ignoreFile = ".gitignore"

// ignored decides which files of a directory git ignores, by the .gitignore files of its repository
// and no others, so that the answer is the same on every machine. Files that git tracks although a
// pattern matches them count as ignored.
type ignored struct {
	prefix string // the path of the directory in its repository; ".": the root, or no repository
	rules  []ignoreRule
}

// ignoreRule is a line of a .gitignore file. Source: gitignore(5).
type ignoreRule struct {
	dir     string // of the file, in the repository
	pattern string // for names relative to dir, as doublestar takes it
	negated bool
	dirOnly bool
}

// ignoredIn returns the rules of the directories above dir in its repository. If these ignore dir
// itself, which a user has named nevertheless, they do not count.
func ignoredIn(dir string) (*ignored, error) {
	i := &ignored{prefix: "."}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return i, nil //nolint:nilerr // the walk reports it
	}
	top := repositoryOf(real)
	if top == "" {
		return i, nil
	}
	below, err := filepath.Rel(top, real)
	if err != nil || below == "." {
		return i, nil //nolint:nilerr // top is a part of real
	}
	i.prefix = filepath.ToSlash(below)
	for _, above := range parents(i.prefix) {
		if err := i.readAt(task.Tree(top), above, above); err != nil {
			return nil, err
		}
	}
	for _, above := range append(parents(i.prefix)[1:], i.prefix) {
		if i.matchAt(above, true) {
			i.rules = nil
			break
		}
	}
	return i, nil
}

// parents returns the directories above name, beginning with ".".
func parents(name string) []string {
	if name == "." {
		return nil
	}
	parent := path.Dir(name)
	return append(parents(parent), parent)
}

// repositoryOf returns the root of the working tree that contains dir, or "".
func repositoryOf(dir string) string {
	if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
		return dir
	}
	if parent := filepath.Dir(dir); parent != dir {
		return repositoryOf(parent)
	}
	return ""
}

// read adds the rules of the directory name in tree, the directory that i was made for.
func (i *ignored) read(tree task.Tree, name string) error {
	return i.readAt(tree, name, path.Join(i.prefix, name))
}

func (i *ignored) readAt(tree task.Tree, name, dir string) error {
	f, err := tree.Open(path.Join(name, ignoreFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if rule, ok := parseIgnored(lines.Text(), dir); ok {
			i.rules = append(i.rules, rule)
		}
	}
	return lines.Err()
}

// parseIgnored returns the rule of a line in the .gitignore file of dir. ok is false if there is
// none, as in a comment.
func parseIgnored(line, dir string) (r ignoreRule, ok bool) {
	line = strings.TrimSuffix(line, "\r")
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = strings.TrimSuffix(line, " ")
	}
	if strings.HasPrefix(line, "#") {
		return r, false
	}
	line, r.negated = strings.CutPrefix(line, "!")
	line, r.dirOnly = strings.CutSuffix(line, "/")
	r.dir = dir
	anchored := strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if line == "" {
		return r, false
	}
	// doublestar has alternatives, which git does not have, and lets a/** match a.
	r.pattern = strings.NewReplacer(`\{`, `\{`, `\}`, `\}`, `{`, `\{`, `}`, `\}`).Replace(line)
	if !anchored {
		r.pattern = "**/" + r.pattern
	}
	if strings.HasSuffix(r.pattern, "/**") {
		r.pattern += "/*"
	}
	return r, doublestar.ValidatePattern(r.pattern)
}

// match reports whether the file or directory name is ignored. The directories above it are not.
func (i *ignored) match(name string, isDir bool) bool {
	return i.matchAt(path.Join(i.prefix, name), isDir)
}

// matchAt is match for a path in the repository. The last rule that matches decides.
func (i *ignored) matchAt(name string, isDir bool) bool {
	out := false
	for _, r := range i.rules {
		below, inside := strings.CutPrefix(name, r.dir+"/")
		if r.dir == "." {
			below, inside = name, true
		}
		if inside && (isDir || !r.dirOnly) && out == r.negated && doublestar.MatchUnvalidated(r.pattern, below) {
			out = !r.negated
		}
	}
	return out
}

// Ignored reports whether a .gitignore file of dir's repository names a file or directory below
// dir, or one of the directories above it. name has forward slashes.
func Ignored(dir, name string, isDir bool) (bool, error) {
	i, err := ignoredIn(dir)
	if err != nil {
		return false, err
	}
	for _, above := range parents(name) {
		if above != "." && i.match(above, true) {
			return true, nil
		}
		if err := i.read(task.Tree(dir), above); err != nil {
			return false, err
		}
	}
	return i.match(name, isDir), nil
}
