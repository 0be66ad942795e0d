package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
)

// parseJSON parses one JSON document by JSON's own rules for strings, numbers and white space: YAML's differ in surrogate
// pairs, tabs and more. It returns nil if the document is empty or invalid; p has the problems.
func parseJSON(file string, data []byte, p *problems) *node {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	c := &jsonConverter{problems: p, data: data, places: newLineIndex(file, data), dec: json.NewDecoder(bytes.NewReader(data))}
	if err := json.Unmarshal(data, new(json.RawMessage)); err != nil {
		var syntax *json.SyntaxError
		offset := len(data)
		if errors.As(err, &syntax) {
			offset = int(syntax.Offset) - 1
		}
		p.add(c.places.at(offset), "", "not valid JSON: %s", strings.TrimPrefix(err.Error(), "json: "))
		return nil
	}
	c.dec.UseNumber()
	root := c.value(0)
	if c.stopped {
		return nil
	}
	return root
}

// jsonConverter turns valid JSON into nodes.
type jsonConverter struct {
	*problems
	data    []byte
	places  *lineIndex
	dec     *json.Decoder
	stopped bool
}

// next reads a token and returns it with its position.
func (c *jsonConverter) next() (json.Token, origin) {
	offset := int(c.dec.InputOffset())
	offset += len(c.data[offset:]) - len(bytes.TrimLeft(c.data[offset:], " \t\r\n,:"))
	token, err := c.dec.Token()
	if err != nil { // cannot happen: the document is valid
		c.stopped = true
	}
	return token, c.places.at(offset)
}

func (c *jsonConverter) value(depth int) *node {
	token, at := c.next()
	n := &node{at: at}
	switch v := token.(type) {
	case bool:
		n.kind, n.text = boolean, map[bool]string{true: "true", false: "false"}[v]
	case json.Number:
		n.kind, n.text = integer, v.String()
		if strings.ContainsAny(n.text, ".eE") {
			n.kind = float
		}
	case string:
		n.kind, n.text = text, v
	case json.Delim:
		if depth > maxDepth && !c.stopped {
			c.stopped = true
			c.add(at, "", "nested too deeply")
		}
		c.collection(n, v, depth)
	}
	return n
}

func (c *jsonConverter) collection(n *node, open json.Delim, depth int) {
	n.kind = list
	if open == '{' {
		n.kind = mapping
	}
	keys := map[string]*field{}
	for !c.stopped && c.dec.More() {
		if n.kind == list {
			n.items = append(n.items, c.value(depth+1))
			continue
		}
		key, at := c.next()
		name, _ := key.(string)
		n.addField(&field{name: name, at: at, value: c.value(depth + 1)}, keys, c.problems)
	}
	c.next() // the closing bracket
}

// looksLikeJSON reports whether data is a JSON object. A YAML file may be one, too, and means the same.
func looksLikeJSON(data []byte) bool {
	data = bytes.TrimSpace(data)
	return bytes.HasPrefix(data, []byte("{")) && json.Valid(data)
}
