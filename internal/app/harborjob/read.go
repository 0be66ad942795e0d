package harborjob

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/org/rollout-action/internal/lib/aliases"
)

// Note is a key of the job that is not carried over, or is only in part.
type Note struct {
	Line int    // in Harbor's file
	Key  string // with those above it: "environment.mounts"
	Why  string // a clause without a full stop
}

// The bounds of a job with its aliases written out.
const (
	maxDepth = 20
	maxNodes = 100_000
)

// parse returns the tree of a document without aliases. JSON is YAML.
func parse(text []byte) (*yaml.Node, error) {
	var doc yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&doc); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("it is not a job of Harbor: its top level has no keys")
	}
	if bad, _ := aliases.Inline(doc.Content[0], maxDepth, maxNodes); bad != nil {
		return nil, fmt.Errorf("line %d: it is too large or too deep", bad.Line)
	}
	return doc.Content[0], nil
}

// table is a mapping of Harbor's file whose keys are taken one by one. Keys that remain are not
// carried over.
type table struct {
	notes  *[]Note
	path   string
	names  []string // in the order of the file
	keys   map[string]*yaml.Node
	values map[string]*yaml.Node
}

// tableOf returns the table at a node; an empty one if it is none.
func tableOf(notes *[]Note, path string, n *yaml.Node) table {
	t := table{notes: notes, path: path, keys: map[string]*yaml.Node{}, values: map[string]*yaml.Node{}}
	if n == nil || n.Kind != yaml.MappingNode {
		return t
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i].Value
		if t.values[name] == nil {
			t.names = append(t.names, name)
		}
		t.keys[name], t.values[name] = n.Content[i], n.Content[i+1]
	}
	return t
}

// take removes and returns the value of a key; nil if there is none, or it is null.
func (t table) take(name string) *yaml.Node {
	n := t.values[name]
	delete(t.values, name)
	if n == nil || n.Tag == "!!null" {
		return nil
	}
	return n
}

// scalar removes and returns the value of a key that is a text, a number or a truth value.
func (t table) scalar(name string) (value string, ok bool) {
	n := t.values[name]
	if n != nil && n.Kind != yaml.ScalarNode {
		t.drop(name, "a single value is expected")
		return "", false
	}
	if n = t.take(name); n == nil {
		return "", false
	}
	return n.Value, true
}

// get returns the text of a key, which stays; "" if there is none.
func (t table) get(name string) string {
	if n := t.values[name]; n != nil {
		return n.Value
	}
	return ""
}

// items removes and returns the items of a list; a single value is a list of one.
func (t table) items(name string) []*yaml.Node {
	switch n := t.take(name); {
	case n == nil:
		return nil
	case n.Kind == yaml.SequenceNode:
		return n.Content
	default:
		return []*yaml.Node{n}
	}
}

// table removes and returns the table of a key.
func (t table) table(name string) table {
	return tableOf(t.notes, t.path+name+".", t.take(name))
}

// drop removes a key and notes why it is not carried over. It does nothing if there is none, or it
// has no value.
func (t table) drop(name, why string) {
	key, n := t.keys[name], t.take(name)
	if n == nil || n.Kind != yaml.ScalarNode && len(n.Content) == 0 {
		return
	}
	*t.notes = append(*t.notes, Note{Line: key.Line, Key: t.path + name, Why: why})
}

// dropAs removes a key as drop does, but without a note if the value is nothing, its default.
func (t table) dropAs(name, nothing, why string) {
	if n := t.values[name]; n != nil && n.Kind == yaml.ScalarNode && n.Value == nothing {
		delete(t.values, name)
		return
	}
	t.drop(name, why)
}

// note adds a note about a key that was taken.
func (t table) note(name, format string, args ...any) {
	line := 0
	if key := t.keys[name]; key != nil {
		line = key.Line
	}
	*t.notes = append(*t.notes, Note{Line: line, Key: t.path + name, Why: fmt.Sprintf(format, args...)})
}

// end notes the keys that nothing has taken.
func (t table) end() {
	for _, name := range t.names {
		if t.values[name] != nil {
			t.drop(name, "Rollout has no such key")
		}
	}
}
