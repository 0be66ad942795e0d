package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/org/rollout-action/internal/lib/fields"
)

// Override sets one key and wins over the file. Path is dotted, with indexes for entries of lists
// ("environment.override_cpus", "agents.0.env.MODEL"); an index may be one past the end. Value is
// YAML ("2", "[a, b]", "true", plain text); for a key that takes text, a value that YAML would read
// as something else is used as typed. An empty Value restores the default. Origin is the user's
// input ("--set environment.override_cpus=2"); messages show it in place of file:line:col. Literal,
// if not nil, is the value in place of Value: a string, an int or a []string.
type Override struct {
	Path, Value, Origin string
	Literal             any
}

// apply sets o.Path in the tree below root.
func apply(root *fields.Node, o Override, p *fields.Problems) {
	at := fields.Place{File: o.Origin}
	value, ok := parseOverride(o, p)
	if !ok || root.Kind != fields.Mapping { // decode reports a root of another kind
		return
	}
	names := fields.Path(strings.Split(o.Path, "."))
	n := root
	for i, name := range names {
		slot := slot(n, name, names[:i], at, p)
		if slot == nil {
			return
		}
		if i == len(names)-1 {
			*slot = value
			break
		}
		if *slot == nil || (*slot).Kind == fields.Null {
			*slot = &fields.Node{Kind: fields.Mapping, At: at}
			if fields.IsIndex(names[i+1]) {
				(*slot).Kind = fields.List
			}
		}
		n = *slot
	}
}

// slot returns the place of n's entry called name, and creates it if it is missing. After a problem
// it returns nil.
func slot(n *fields.Node, name string, parent fields.Path, at fields.Place, p *fields.Problems) **fields.Node {
	switch {
	case name == "":
		p.Add(at, "write key=value, with dots between keys", "the path has an empty key%s", parent.In())
		return nil
	case n.Kind == fields.Mapping:
		f := n.Field(name)
		if f == nil {
			f = &fields.Field{Name: name, At: at}
			n.Add(f)
		}
		return &f.Value
	case n.Kind == fields.List:
		i, err := strconv.Atoi(name)
		if err != nil || i < 0 || i > len(n.Items) {
			p.Add(at, "", "%s has no entry %q: it has %d, counted from 0", parent, name, len(n.Items))
			return nil
		}
		if i == len(n.Items) {
			n.Items = append(n.Items, nil)
		}
		return &n.Items[i]
	default:
		p.Add(at, "", "%s is %s and has no key %q", parent, n, name)
		return nil
	}
}

// parseOverride parses the value. Text that is not YAML is taken literally, unless it begins like a
// list or mapping.
func parseOverride(o Override, p *fields.Problems) (*fields.Node, bool) {
	at := fields.Place{File: o.Origin}
	if o.Literal != nil {
		n := literal(o.Literal)
		flag(n, at)
		return n, true
	}
	var found fields.Problems
	n := parseYAML(o.Origin, []byte(o.Value), &found)
	switch {
	case len(found.List) > 0 && strings.ContainsAny(o.Value[:1], `[{"'`):
		p.Add(at, "", "%s", found.List[0].Message)
		return nil, false
	case len(found.List) > 0:
		n = &fields.Node{Kind: fields.Text, Text: o.Value}
	case n == nil:
		n = &fields.Node{Kind: fields.Null}
	}
	flag(n, at)
	n.Typed = o.Value
	return n, true
}

// literal returns a Go value as a node.
func literal(value any) *fields.Node {
	switch value := value.(type) {
	case int:
		return &fields.Node{Kind: fields.Int, Text: strconv.Itoa(value)}
	case []string:
		n := &fields.Node{Kind: fields.List}
		for _, item := range value {
			n.Items = append(n.Items, literal(item))
		}
		return n
	case map[string]any:
		n := &fields.Node{Kind: fields.Mapping}
		for _, name := range slices.Sorted(maps.Keys(value)) {
			n.Add(&fields.Field{Name: name, Value: literal(value[name])})
		}
		return n
	case []any:
		n := &fields.Node{Kind: fields.List}
		for _, item := range value {
			n.Items = append(n.Items, literal(item))
		}
		return n
	case string:
		return &fields.Node{Kind: fields.Text, Text: value}
	}
	panic(fmt.Sprintf("config: a literal of type %T", value))
}

// flag sets the place of n and everything in it to at.
func flag(n *fields.Node, at fields.Place) {
	n.At = at
	if n.Typed == "" {
		n.Typed = n.Text
	}
	for _, item := range n.Items {
		flag(item, at)
	}
	for _, f := range n.Fields {
		f.At = at
		flag(f.Value, at)
	}
}
