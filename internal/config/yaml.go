package config

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	maxDepth = 100 // of nesting, also through aliases
	// maxAliased bounds what aliases may expand to ("billion laughs").
	maxAliased = 100_000
)

// parseYAML parses one YAML document. It returns nil if the document is empty or cannot be parsed; in the latter case p has
// the problem.
func parseYAML(file string, data []byte, p *problems) *node {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		addSyntaxError(file, data, err, p)
		return nil
	}
	if err := dec.Decode(&more); err == nil {
		p.add(origin{file, more.Line, more.Column}, "keep one job per file", "a second YAML document starts here")
	} else if !errors.Is(err, io.EOF) {
		addSyntaxError(file, data, err, p)
		return nil
	}
	c := &yamlConverter{file: file, problems: p}
	root := c.convert(doc.Content[0], 0)
	if c.stopped {
		return nil
	}
	return root
}

var yamlError = regexp.MustCompile(`(?s)^yaml: (?:line (\d+): )?(.*)$`)

// addSyntaxError turns the parser's error into a problem. The parser counts lines from 0 in errors of its grammar ("did not find
// expected …"), and from 1 in errors of its scanner.
func addSyntaxError(file string, data []byte, err error, p *problems) {
	at, message, hint := origin{file: file, line: 1}, err.Error(), ""
	if m := yamlError.FindStringSubmatch(message); m != nil {
		message = m[2]
		if n, err := strconv.Atoi(m[1]); err == nil {
			at.line = n
			if strings.HasPrefix(message, "did not find expected") {
				at.line++
			}
		}
	}
	lines := strings.Split(string(data), "\n")
	at.line = min(at.line, len(lines))
	switch {
	case strings.Contains(message, "control characters"):
		at = newLineIndex(file, data).at(bytes.IndexFunc(data, unprintable))
		hint = `write it as an escape in double quotes, such as "\x1b"`
	case strings.Contains(message, "cannot start any token") && strings.HasPrefix(strings.TrimLeft(lines[at.line-1], " "), "\t"):
		hint = "YAML is indented with spaces, not with tabs"
	case strings.HasPrefix(message, "did not find expected"):
		hint = "look for wrong indentation or a missing quote, here or further down"
	}
	p.add(at, hint, "not valid YAML: %s", message)
}

// unprintable reports whether r is a character that YAML does not allow unescaped.
func unprintable(r rune) bool {
	switch {
	case r == '\t', r == '\n', r == '\r', r == 0x85:
		return false
	case r < 0x20, 0x7f <= r && r < 0xa0, r == 0xfffe, r == 0xffff:
		return true
	}
	return false
}

// yamlConverter turns the parser's nodes into ours.
type yamlConverter struct {
	*problems
	file    string
	inAlias int // how many aliases are being expanded
	aliased int // nodes made by expanding aliases
	stopped bool
}

func (c *yamlConverter) at(n *yaml.Node) origin { return origin{c.file, n.Line, n.Column} }

// stop reports a problem after which nothing more is converted, once.
func (c *yamlConverter) stop(n *yaml.Node, hint, message string) *node {
	if !c.stopped {
		c.add(c.at(n), hint, "%s", message)
	}
	c.stopped = true
	return &node{at: c.at(n)}
}

// convert converts a node and copies aliases. depth bounds aliases that contain themselves.
func (c *yamlConverter) convert(n *yaml.Node, depth int) *node {
	if depth > maxDepth {
		hint := ""
		if c.inAlias > 0 {
			hint = "an alias must not contain itself"
		}
		return c.stop(n, hint, "nested too deeply")
	}
	if c.inAlias > 0 {
		c.aliased++
	}
	if c.aliased > maxAliased {
		return c.stop(n, "write the values out", "the aliases expand to too much")
	}
	if c.stopped {
		return &node{at: c.at(n)}
	}
	switch n.Kind {
	case yaml.AliasNode:
		c.inAlias++
		defer func() { c.inAlias-- }()
		return c.convert(n.Alias, depth+1)
	case yaml.MappingNode:
		return c.mapping(n, depth)
	case yaml.SequenceNode:
		out := &node{kind: list, at: c.at(n)}
		c.checkTag(n, "!!seq")
		for _, item := range n.Content {
			out.items = append(out.items, c.convert(item, depth+1))
		}
		return out
	default:
		return c.scalar(n)
	}
}

var scalarKinds = map[string]kind{
	"!!null": null, "!!bool": boolean, "!!int": integer, "!!float": float, "!!str": text,
	"!!timestamp": text, // a date is text, as in JSON
}

// scalar converts a scalar. Of explicit tags it only accepts !!str, which quotes.
func (c *yamlConverter) scalar(n *yaml.Node) *node {
	k, ok := scalarKinds[n.ShortTag()]
	if !ok || n.Style&yaml.TaggedStyle != 0 && k != text {
		c.add(c.at(n), "remove the tag", "the YAML tag %s is not supported", n.Tag)
		k = text
	}
	return &node{kind: k, text: n.Value, at: c.at(n)}
}

func (c *yamlConverter) checkTag(n *yaml.Node, want string) {
	if got := n.ShortTag(); got != want {
		c.add(c.at(n), "remove the tag", "the YAML tag %s is not supported here", got)
	}
}

// mapping converts the keys of n, then adds keys from merge keys (<<) that n does not have.
func (c *yamlConverter) mapping(n *yaml.Node, depth int) *node {
	c.checkTag(n, "!!map")
	out := &node{kind: mapping, at: c.at(n)}
	keys := map[string]*field{}
	var merges []*yaml.Node
	for i := 0; i+1 < len(n.Content) && !c.stopped; i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Kind == yaml.ScalarNode && k.ShortTag() == "!!merge" {
			merges = append(merges, v)
			continue
		}
		key := c.convert(k, depth+1)
		value := c.convert(v, depth+1)
		if key.kind == list || key.kind == mapping {
			c.add(key.at, "", "a key must be plain text, not %s", key)
			continue
		}
		out.addField(&field{name: key.text, at: c.at(k), value: value}, keys, c.problems)
	}
	for _, m := range merges {
		c.merge(out, keys, m, depth+1)
	}
	return out
}

func (c *yamlConverter) merge(into *node, keys map[string]*field, n *yaml.Node, depth int) {
	from := c.convert(n, depth)
	sources := []*node{from}
	if from.kind == list {
		sources = from.items
	}
	for _, source := range sources {
		if source.kind != mapping {
			c.add(c.at(n), "", "<< must be given mappings, not %s", source)
			continue
		}
		for _, f := range source.fields {
			if keys[f.name] == nil {
				keys[f.name] = f
				into.fields = append(into.fields, f)
			}
		}
	}
}

// addField appends f. If seen has a field of that name, it reports a problem instead.
func (n *node) addField(f *field, seen map[string]*field, p *problems) {
	if first := seen[f.name]; first != nil {
		p.add(f.at, "keep one of them", "duplicate key %q: line %d has it, too", shorten(f.name), first.at.line)
		return
	}
	seen[f.name] = f
	n.fields = append(n.fields, f)
}
