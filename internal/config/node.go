package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/org/rollout-action/internal/diag"
)

// node is one value of a job file, from YAML, JSON or a flag. Aliases and merge keys are resolved.
type node struct {
	kind   kind
	text   string   // of a scalar, as written but without quotes
	items  []*node  // of a list
	fields []*field // of a mapping, in the file's order, without duplicates
	at     origin
	typed  string            // the text of a value that came from a flag
	byName map[string]*field // of fields, if there are many; see field
}

// field is one key of a mapping.
type field struct {
	name  string
	at    origin // of the key
	value *node
}

type kind int

const (
	null kind = iota
	boolean
	integer
	float
	text
	list
	mapping
)

// field returns the field called name, or nil.
func (n *node) field(name string) *field {
	if n == nil {
		return nil
	}
	const few = 16
	if len(n.fields) > few {
		if len(n.byName) != len(n.fields) { // while a tree is built, fields are added and removed, but not replaced
			n.byName = make(map[string]*field, len(n.fields))
			for _, f := range n.fields {
				n.byName[f.name] = f
			}
		}
		return n.byName[name]
	}
	i := slices.IndexFunc(n.fields, func(f *field) bool { return f.name == name })
	if i < 0 {
		return nil
	}
	return n.fields[i]
}

// given returns the value of a key, or nil if the key is missing or has no value.
func (n *node) given(name string) *node {
	if f := n.field(name); f != nil && f.value.kind != null {
		return f.value
	}
	return nil
}

// String returns a description of the node, for "must be …, not …".
func (n *node) String() string {
	switch n.kind {
	case null:
		return "nothing"
	case boolean:
		return n.text
	case integer, float:
		return "the number " + shorten(n.text)
	case text:
		return "the text " + strconv.Quote(shorten(n.text))
	case list:
		return "a list"
	default:
		return "a mapping"
	}
}

// shorten cuts long values, for messages.
func shorten(s string) string {
	const most = 60
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return s
}

// keyPath is the path of a value in a job file: keys, and indexes of lists as decimal numbers.
type keyPath []string

func (p keyPath) child(name string) keyPath { return append(slices.Clip(p), name) }

func (p keyPath) index(i int) keyPath { return p.child(strconv.Itoa(i)) }

// String returns the path as users write it: agents[0].env.MODEL.
func (p keyPath) String() string {
	var b strings.Builder
	for i, name := range p {
		switch {
		case isIndex(name):
			b.WriteString("[" + name + "]")
		case i > 0:
			b.WriteString("." + name)
		default:
			b.WriteString(name)
		}
	}
	return b.String()
}

// in returns " in agents[0]", or "" for the top level.
func (p keyPath) in() string {
	if len(p) == 0 {
		return ""
	}
	return " in " + p.String()
}

func isIndex(s string) bool {
	_, err := strconv.ParseUint(s, 10, 31)
	return err == nil
}

// locate returns the origin of the value at p below n, or of its nearest parent that exists. If key is true, it returns the
// origin of the key.
func (n *node) locate(p keyPath, key bool) origin {
	at := n.at
	for _, name := range p {
		var next *node
		switch n.kind {
		case mapping:
			f := n.field(name)
			if f == nil {
				return at
			}
			next, at = f.value, f.at
			if next.at.isFlag() {
				at = next.at
			}
		case list:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(n.items) {
				return at
			}
			next = n.items[i]
			at = next.at
		default:
			return at
		}
		n = next
	}
	if key {
		return at
	}
	return n.at
}

// problems collects the problems of a job file: the first ones, and the number of the others.
type problems struct {
	list  diag.List
	count map[diag.Severity]int
}

// maxProblems is how many problems of each severity are kept.
const maxProblems = 100

func (p *problems) add(at origin, hint, format string, args ...any) {
	p.note(diag.Error, at, hint, format, args)
}

func (p *problems) warn(at origin, hint, format string, args ...any) {
	p.note(diag.Warning, at, hint, format, args)
}

func (p *problems) note(s diag.Severity, at origin, hint, format string, args []any) {
	if p.count == nil {
		p.count = map[diag.Severity]int{}
	}
	if p.count[s]++; p.count[s] <= maxProblems {
		p.list = append(p.list, at.diagnostic(s, hint, fmt.Sprintf(format, args...)))
	}
}

// full reports whether further errors are only counted. Then there is no point in searching for hints.
func (p *problems) full() bool { return p.count[diag.Error] >= maxProblems }

// all returns the problems, sorted, with a note on how many were left out.
func (p *problems) all(file string) diag.List {
	p.list.Sort()
	for _, s := range []diag.Severity{diag.Error, diag.Warning} {
		if more := p.count[s] - maxProblems; more > 0 {
			p.list = append(p.list, diag.Diagnostic{File: file, Severity: s, Message: fmt.Sprintf("and %d more of this kind", more)})
		}
	}
	p.count = nil
	return p.list
}
