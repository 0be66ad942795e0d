package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/org/rollout-action/internal/lib/fields"
)

// parseJSON parses one JSON document by JSON's own rules for strings, numbers and white space:
// YAML's differ in surrogate pairs, tabs and more. It returns nil if the document is empty or
// invalid, and adds the problems to p.
func parseJSON(file string, data []byte, p *fields.Problems) *fields.Node {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	c := &jsonConverter{Problems: p, data: data, places: fields.NewLines(file, data), dec: json.NewDecoder(bytes.NewReader(data))}
	if err := json.Unmarshal(data, new(json.RawMessage)); err != nil {
		var syntax *json.SyntaxError
		offset := len(data)
		if errors.As(err, &syntax) {
			offset = int(syntax.Offset) - 1
		}
		p.Add(c.places.At(offset), "", "not valid JSON: %s", strings.TrimPrefix(err.Error(), "json: "))
		return nil
	}
	c.dec.UseNumber()
	root := c.value(0)
	if c.stopped {
		return nil
	}
	return root
}

// jsonConverter converts valid JSON to nodes.
type jsonConverter struct {
	*fields.Problems
	data    []byte
	places  *fields.Lines
	dec     *json.Decoder
	values  int
	stopped bool
}

// maxValues bounds the values in a JSON file, each of which needs a hundred bytes of memory.
const maxValues = 500_000

// next reads a token and returns it with its position.
func (c *jsonConverter) next() (json.Token, fields.Place) {
	offset := int(c.dec.InputOffset())
	offset += len(c.data[offset:]) - len(bytes.TrimLeft(c.data[offset:], " \t\r\n,:"))
	token, err := c.dec.Token()
	if err != nil { // cannot happen: the document is valid
		c.stopped = true
	}
	return token, c.places.At(offset)
}

func (c *jsonConverter) value(depth int) *fields.Node {
	token, at := c.next()
	n := &fields.Node{At: at}
	if c.values++; c.values > maxValues && !c.stopped {
		c.stopped = true
		c.Add(at, "", "it has more than %d values", maxValues)
	}
	switch v := token.(type) {
	case bool:
		n.Kind, n.Text = fields.Bool, strconv.FormatBool(v)
	case json.Number:
		n.Kind, n.Text = fields.Int, v.String()
		if strings.ContainsAny(n.Text, ".eE") {
			n.Kind = fields.Float
		}
	case string:
		n.Kind, n.Text = fields.Text, v
	case json.Delim:
		if depth > maxDepth && !c.stopped {
			c.stopped = true
			c.Add(at, "", "nested too deeply")
		}
		c.collection(n, v, depth)
	}
	return n
}

func (c *jsonConverter) collection(n *fields.Node, open json.Delim, depth int) {
	n.Kind = fields.List
	if open == '{' {
		n.Kind = fields.Mapping
	}
	for !c.stopped && c.dec.More() {
		if n.Kind == fields.List {
			n.Items = append(n.Items, c.value(depth+1))
			continue
		}
		key, at := c.next()
		name, _ := key.(string)
		addField(n, &fields.Field{Name: name, At: at, Value: c.value(depth + 1)}, c.Problems)
	}
	c.next() // the closing bracket
}

// looksLikeJSON reports whether data is a JSON object. A YAML file may be one, too, and means the
// same.
func looksLikeJSON(data []byte) bool {
	data = bytes.TrimSpace(data)
	return bytes.HasPrefix(data, []byte("{")) && json.Valid(data)
}
