package task

import (
	"errors"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/org/rollout-action/internal/lib/fields"
)

// maxKeys limits the keys of a task.toml, including its tables: the library compares each key with
// all before it. Real files have some dozens.
const maxKeys = 5000

// parseTOML returns the tree of a document, and its values in the library's types. It returns nil
// if the document is invalid; p has the problem.
func parseTOML(file string, content []byte, p *fields.Problems) (*fields.Node, map[string]any) {
	t := &tree{lines: fields.NewLines(file, content), root: &fields.Node{Kind: fields.Mapping, At: fields.Place{File: file}}}
	if line := t.parse(content); line > 0 {
		p.Add(fields.Place{File: file, Line: line}, "keep data in separate files", "has more than %d keys", maxKeys)
		return nil, nil
	}
	var values map[string]any
	if err := toml.Unmarshal(content, &values); err != nil {
		at := fields.Place{File: file}
		var de *toml.DecodeError
		if errors.As(err, &de) {
			at.Line, at.Column = de.Position()
		}
		p.Add(at, "", "%s", strings.TrimPrefix(err.Error(), "toml: "))
		return nil, nil
	}
	return t.root, values
}

// tree is the tree of a document while it is built. It does not check the document: toml.Unmarshal
// does, but does not know the places of values.
type tree struct {
	lines *fields.Lines
	root  *fields.Node
	keys  int
}

// parse adds the document to the tree, up to a syntax error. It returns the line at which it has
// more than maxKeys, or 0.
func (t *tree) parse(content []byte) (line int) {
	var parser unstable.Parser
	parser.Reset(content)
	table := t.root
	for parser.NextExpression() {
		e := parser.Expression()
		switch e.Kind {
		case unstable.Table:
			table = t.slot(t.root, e, fields.Mapping)
		case unstable.ArrayTable:
			list := t.slot(t.root, e, fields.List)
			table = &fields.Node{Kind: fields.Mapping, At: list.At}
			list.Items = append(list.Items, table)
		case unstable.KeyValue:
			t.keyValue(table, e)
		}
		if key := e.Key(); t.keys > maxKeys && key.Next() {
			return t.lines.At(int(key.Node().Raw.Offset)).Line
		}
	}
	return 0
}

// slot returns the value of e's dotted key below n. Missing tables are created, and so is a missing
// value, of the given kind. Of a list on the way, the last item counts.
func (t *tree) slot(n *fields.Node, e *unstable.Node, kind fields.Kind) *fields.Node {
	for key := e.Key(); key.Next(); {
		if n.Kind == fields.List && len(n.Items) > 0 {
			n = n.Items[len(n.Items)-1]
		}
		name := string(key.Node().Data)
		f := n.Field(name)
		if f == nil {
			at := t.lines.At(int(key.Node().Raw.Offset))
			f = &fields.Field{Name: name, At: at, Value: &fields.Node{Kind: fields.Mapping, At: at}}
			if key.IsLast() {
				f.Value.Kind = kind
			}
			n.Add(f)
		}
		t.keys++
		n = f.Value
	}
	return n
}

func (t *tree) keyValue(table *fields.Node, e *unstable.Node) {
	t.set(t.slot(table, e, fields.Null), e.Value())
}

// set sets n to a value of the parser.
func (t *tree) set(n *fields.Node, v *unstable.Node) {
	n.Text = string(v.Data)
	switch v.Kind {
	case unstable.InlineTable:
		n.Kind = fields.Mapping
		for entries := v.Children(); entries.Next() && t.keys <= maxKeys; {
			t.keyValue(n, entries.Node())
		}
	case unstable.Array:
		n.Kind = fields.List
		for items := v.Children(); items.Next() && t.keys <= maxKeys; {
			item := &fields.Node{At: n.At}
			if raw := items.Node().Raw; raw.Length > 0 { // an array has none
				item.At = t.lines.At(int(raw.Offset))
			}
			t.set(item, items.Node())
			n.Items = append(n.Items, item)
		}
	case unstable.String:
		n.Kind = fields.Text
	case unstable.Bool:
		n.Kind = fields.Bool
	case unstable.Integer:
		n.Kind = fields.Int
	case unstable.Float:
		n.Kind = fields.Float
	default:
		n.Kind = fields.Date
	}
}
