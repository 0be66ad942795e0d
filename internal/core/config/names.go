package config

import (
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/fields"
)

// names finds equal names, and names that would share a directory.
type names struct {
	c      *checker
	kind   string // "agents"
	hint   string
	bySlug map[string]name
}

type name struct {
	text  string
	owner fields.Path
}

func (c *checker) newNames(kind, hint string) *names {
	return &names{c: c, kind: kind, hint: hint, bySlug: map[string]name{}}
}

// takePlain is take for names that globs of the job file and of flags select: it also refuses a
// name that is a pattern itself.
func (n *names) takePlain(text string, owner, p fields.Path) {
	if pattern := result.PatternIn(text); pattern != "" && !n.c.opts.Recorded {
		n.c.Problem(p, n.hint, "the name %q has the pattern %q: where %s are selected by their names, it would select others, too", fields.Shorten(text), pattern, n.kind)
		return
	}
	n.take(text, owner, p)
}

// take records that owner has the name text, written at p, and reports a clash.
func (n *names) take(text string, owner, p fields.Path) {
	slug := result.Slug(text)
	other, taken := n.bySlug[slug]
	switch {
	case !taken:
		n.bySlug[slug] = name{text, owner}
	case other.text == text:
		n.c.Problem(p, n.hint, "two %s are called %q: %s and %s", n.kind, fields.Shorten(text), other.owner, owner)
	default:
		n.c.Problem(p, n.hint, "the %s %q and %q would share the directory %q", n.kind, fields.Shorten(other.text), fields.Shorten(text), slug)
	}
}
