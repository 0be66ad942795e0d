package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Override sets one key and wins over the file. Path is dotted, with indexes for entries of lists ("environment.override_cpus",
// "agents.0.env.MODEL"); an index may be one past the end. Value is YAML ("2", "[a, b]", "true", plain text); for a key that
// takes text, a value that YAML would read as something else is used as typed. An empty Value restores the default. Origin is
// what the user typed ("--set environment.override_cpus=2"); messages show it in place of file:line:col. Literal is the value
// itself, a string, an int or a []string, in place of Value; nil: Value counts.
type Override struct {
	Path, Value, Origin string
	Literal             any
}

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
	if o.Literal != nil {
		n := literal(o.Literal)
		n.flag(at)
		return n, true
	}
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

// literal returns a value of a program as a node.
func literal(value any) *node {
	switch value := value.(type) {
	case int:
		return &node{kind: integer, text: strconv.Itoa(value)}
	case []string:
		n := &node{kind: list}
		for _, item := range value {
			n.items = append(n.items, literal(item))
		}
		return n
	case map[string]any:
		n := &node{kind: mapping}
		for _, name := range slices.Sorted(maps.Keys(value)) {
			n.fields = append(n.fields, &field{name: name, value: literal(value[name])})
		}
		return n
	case []any:
		n := &node{kind: list}
		for _, item := range value {
			n.items = append(n.items, literal(item))
		}
		return n
	case string:
		return &node{kind: text, text: value}
	}
	panic(fmt.Sprintf("config: a literal of type %T", value))
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
