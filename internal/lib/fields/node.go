package fields

import (
	"slices"
	"strconv"
)

// Node is one value of a file in any format: from YAML, JSON, TOML or a flag. Aliases and merge
// keys are resolved.
type Node struct {
	Kind   Kind
	Text   string   // of a scalar, as written but without quotes
	Items  []*Node  // of a list
	Fields []*Field // of a mapping, in the file's order, without duplicates
	At     Place    // for messages; of a value in TOML, the place of its key
	Typed  string   // the text of a value that came from a flag
	byName map[string]*Field
}

// Field is one key of a mapping.
type Field struct {
	Name  string
	At    Place // of the key
	Value *Node
}

// Kind is the kind of a value.
type Kind int

// The kinds. Only TOML has dates; in YAML and JSON they are text.
const (
	Null Kind = iota
	Bool
	Int
	Float
	Text
	Date
	List
	Mapping
)

// manyFields is the number of fields from which they are looked up in a map.
const manyFields = 16

// Field returns the field called name, or nil.
func (n *Node) Field(name string) *Field {
	if n == nil {
		return nil
	}
	if len(n.Fields) > manyFields {
		if len(n.byName) != len(n.Fields) { // fields are added and removed, but not replaced
			n.byName = make(map[string]*Field, len(n.Fields))
			for _, f := range n.Fields {
				n.byName[f.Name] = f
			}
		}
		return n.byName[name]
	}
	i := slices.IndexFunc(n.Fields, func(f *Field) bool { return f.Name == name })
	if i < 0 {
		return nil
	}
	return n.Fields[i]
}

// Add appends a field. No field may have its name yet.
func (n *Node) Add(f *Field) {
	if n.byName != nil && len(n.byName) == len(n.Fields) {
		n.byName[f.Name] = f
	}
	n.Fields = append(n.Fields, f)
}

// Given returns the value of a key, or nil if the key is missing or has no value. Of several names,
// each is a key in the value of the one before, or an index if that is a list.
func (n *Node) Given(names ...string) *Node {
	for _, name := range names {
		if n != nil && n.Kind == List {
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(n.Items) {
				return nil
			}
			n = n.Items[i]
			continue
		}
		f := n.Field(name)
		if f == nil || f.Value.Kind == Null {
			return nil
		}
		n = f.Value
	}
	return n
}

// String returns a description of the node, for "must be …, not …".
func (n *Node) String() string {
	switch n.Kind {
	case Null:
		return "nothing"
	case Bool:
		return n.Text
	case Int, Float:
		return "the number " + Shorten(n.Text)
	case Text:
		return "the text " + strconv.Quote(Shorten(n.Text))
	case Date:
		return "the date or time " + n.Text
	case List:
		return "a list"
	default:
		return "a mapping"
	}
}

// Shorten cuts long values, for messages.
func Shorten(s string) string {
	const most = 60
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return s
}

// Locate returns the place of the value at p below n, or of its nearest parent that exists. If key
// is true, it returns the place of the key.
func (n *Node) Locate(p Path, key bool) Place {
	at := n.At
	for _, name := range p {
		var next *Node
		switch n.Kind {
		case Mapping:
			f := n.Field(name)
			if f == nil {
				return at
			}
			next, at = f.Value, f.At
			if next.At.IsFlag() {
				at = next.At
			}
		case List:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(n.Items) {
				return at
			}
			next = n.Items[i]
			at = next.At
		default:
			return at
		}
		n = next
	}
	if key {
		return at
	}
	return n.At
}
