package harborjob

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// node is a mapping of the file that is written.
type node struct{ *yaml.Node }

func mapping() *node { return &node{&yaml.Node{Kind: yaml.MappingNode}} }

// list returns a list of mappings.
func list(of ...*node) *yaml.Node {
	n := &yaml.Node{Kind: yaml.SequenceNode}
	for _, m := range of {
		n.Content = append(n.Content, m.Node)
	}
	return n
}

// texts returns a list of texts in one line.
func texts(of []*yaml.Node) *yaml.Node {
	n := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	for _, item := range of {
		n.Content = append(n.Content, text(item.Value))
	}
	return n
}

// text returns a scalar that is a text, quoted if it looks like something else.
func text(value string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(value)
	n.Style = 0
	if strings.Contains(value, "${") {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

// add appends a key.
func (n *node) add(key string, value *yaml.Node) *node {
	n.Content = append(n.Content, text(key), value)
	return n
}

// set appends a key with a text.
func (n *node) set(key, value string) *node { return n.add(key, text(value)) }

// number appends a key with a number or a truth value, as it is written.
func (n *node) number(key, value string) *node {
	return n.add(key, &yaml.Node{Kind: yaml.ScalarNode, Value: value})
}

// sub returns the mapping of a key, which it appends if there is none.
func (n *node) sub(key string) *node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return &node{n.Content[i+1]}
		}
	}
	m := mapping()
	n.add(key, m.Node)
	return m
}

// get returns the text of a key; "" if there is none.
func (n *node) get(key string) string {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1].Value
		}
	}
	return ""
}

// without removes a key.
func (n *node) without(key string) *node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			n.Content = slices.Delete(n.Content, i, i+2)
			break
		}
	}
	return n
}

// environmentOf returns the variables of a mapping, or of a list of NAME=VALUE.
func environmentOf(n *yaml.Node) *node {
	out := mapping()
	switch {
	case n == nil:
	case n.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			out.set(n.Content[i].Value, n.Content[i+1].Value)
		}
	case n.Kind == yaml.SequenceNode:
		for _, item := range n.Content {
			if name, value, ok := strings.Cut(item.Value, "="); ok {
				out.set(strings.TrimSpace(name), strings.TrimSpace(value))
			}
		}
	}
	return out
}

// String returns the mapping as YAML.
func (n *node) String() string {
	text, err := yaml.Marshal(n.Node)
	if err != nil {
		panic(err) // a tree of mappings, lists and scalars can be written
	}
	return string(text)
}
