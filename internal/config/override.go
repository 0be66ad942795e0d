package config

import (
	"strconv"
	"strings"
)

// Override sets one key and wins over the file. Path is dotted, with indexes for entries of lists ("environment.override_cpus",
// "agents.0.env.MODEL"); an index may be one past the end. Value is YAML ("2", "[a, b]", "true", plain text); for a key that
// takes text, a value that YAML would read as something else is used as typed. An empty Value restores the default. Origin is
// what the user typed ("--set environment.override_cpus=2"); messages show it in place of file:line:col.
type Override struct{ Path, Value, Origin string }

// apply sets o.Path in the tree below root.
func apply(root *node, o Override, p *problems) {
	at := origin{file: o.Origin}
	value, ok := parseOverride(o, p)
	if !ok || root.kind != mapping { // decode says what the root must be
		return
	}
	names := keyPath(strings.Split(o.Path, "."))
	n := root
	for i, name := range names {
		slot := n.slot(name, names[:i], at, p)
		if slot == nil {
			return
		}
		if i == len(names)-1 {
			*slot = value
			break
		}
		if *slot == nil || (*slot).kind == null {
			*slot = &node{kind: mapping, at: at}
			if isIndex(names[i+1]) {
				(*slot).kind = list
			}
		}
		n = *slot
	}
}

// slot returns the place of n's entry called name, and creates it if it is missing. After a problem it returns nil.
func (n *node) slot(name string, parent keyPath, at origin, p *problems) **node {
	switch {
	case name == "":
		p.add(at, "write key=value, with dots between keys", "the path has an empty key%s", parent.in())
		return nil
	case n.kind == mapping:
		f := n.field(name)
		if f == nil {
			f = &field{name: name, at: at}
			n.fields = append(n.fields, f)
		}
		return &f.value
	case n.kind == list:
		i, err := strconv.Atoi(name)
		if err != nil || i < 0 || i > len(n.items) {
			p.add(at, "", "%s has no entry %q: it has %d, counted from 0", parent, name, len(n.items))
			return nil
		}
		if i == len(n.items) {
			n.items = append(n.items, nil)
		}
		return &n.items[i]
	default:
		p.add(at, "", "%s is %s and has no key %q", parent, n, name)
		return nil
	}
}

// parseOverride parses the value. Text that is not YAML is taken literally, unless it begins like a list or mapping.
func parseOverride(o Override, p *problems) (*node, bool) {
	at := origin{file: o.Origin}
	var found problems
	n := parseYAML(o.Origin, []byte(o.Value), &found)
	switch {
	case len(found.list) > 0 && strings.ContainsAny(o.Value[:1], `[{"'`):
		p.add(at, "", "%s", found.list[0].Message)
		return nil, false
	case len(found.list) > 0:
		n = &node{kind: text, text: o.Value}
	case n == nil:
		n = &node{kind: null}
	}
	n.flag(at)
	n.typed = o.Value
	return n, true
}

// flag sets the origin of n and everything in it to at.
func (n *node) flag(at origin) {
	n.at = at
	if n.typed == "" {
		n.typed = n.text
	}
	for _, item := range n.items {
		item.flag(at)
	}
	for _, f := range n.fields {
		f.at = at
		f.value.flag(at)
	}
}
