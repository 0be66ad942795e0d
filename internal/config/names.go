package config

import (
	"path/filepath"

	"os"

	"github.com/org/rollout-action/internal/result"
)

// names finds things that have the same name, or names that make the same folder.
type names struct {
	c      *checker
	kind   string // "agents"
	hint   string
	bySlug map[string]name
}

type name struct {
	text string
	at   keyPath
}

func (c *checker) newNames(kind, hint string) *names {
	return &names{c: c, kind: kind, hint: hint, bySlug: map[string]name{}}
}

// take notes that what is at p is called text.
func (n *names) take(text string, p keyPath) {
	slug := result.Slug(text)
	other, taken := n.bySlug[slug]
	switch {
	case !taken:
		n.bySlug[slug] = name{text, p}
	case other.text == text:
		n.c.problem(p, n.hint, "two %s are called %q: %s and %s", n.kind, shorten(text), other.at, p)
	default:
		n.c.problem(p, n.hint, "the %s %q and %q would share the folder %q", n.kind, shorten(other.text), shorten(text), slug)
	}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// elsewhere is the hint for a path that does not exist from the job file's folder but does from the
// current one; "" when it does not.
func (c *checker) elsewhere(path string) string {
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
	case os.IsNotExist(err):
		c.problem(p, c.elsewhere(path), "there is no folder %s", dir)
	default:
		c.problem(p, "", "%s: %v", p, err)
	}
}
