package config

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/org/rollout-action/internal/lib/aliases"
	"github.com/org/rollout-action/internal/lib/fields"
)

const (
	maxDepth = 100 // of nesting, also through aliases
	// maxAliased bounds what aliases may expand to ("billion laughs").
	maxAliased = 100_000
)

// parseYAML parses one YAML document. It returns nil if the document is empty or cannot be parsed;
// in the latter case p has the problem.
func parseYAML(file string, data []byte, p *fields.Problems) *fields.Node {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		addSyntaxError(file, data, err, p)
		return nil
	}
	if err := dec.Decode(&more); err == nil {
		p.Add(fields.Place{File: file, Line: more.Line, Column: more.Column}, "keep one job per file", "a second YAML document starts here")
	} else if !errors.Is(err, io.EOF) {
		addSyntaxError(file, data, err, p)
		return nil
	}
	c := &yamlConverter{file: file, Problems: p}
	// No text has more values than bytes.
	switch bad, deep := aliases.Inline(&doc, maxDepth, len(data)+maxAliased); {
	case deep:
		p.Add(c.at(bad), "", "nested too deeply, or an alias contains itself")
	case bad != nil:
		p.Add(c.at(bad), "write the values out", "the aliases expand to too much")
	default:
		return c.convert(doc.Content[0])
	}
	return nil
}

var yamlError = regexp.MustCompile(`(?s)^yaml: (?:line (\d+): )?(.*)$`)

// addSyntaxError converts the parser's error to a problem. The parser counts lines from 0 in errors
// of its grammar ("did not find expected …"), and from 1 in errors of its scanner.
func addSyntaxError(file string, data []byte, err error, p *fields.Problems) {
	at, message, hint := fields.Place{File: file, Line: 1}, err.Error(), ""
	if m := yamlError.FindStringSubmatch(message); m != nil {
		message = m[2]
		if n, err := strconv.Atoi(m[1]); err == nil {
			at.Line = n
			if strings.HasPrefix(message, "did not find expected") {
				at.Line++
			}
		}
	}
	lines := strings.Split(string(data), "\n")
	at.Line = min(at.Line, len(lines))
	switch {
	case strings.Contains(message, "control characters"):
		at = fields.NewLines(file, data).At(bytes.IndexFunc(data, unprintable))
		hint = `write it as an escape in double quotes, such as "\x1b"`
	case strings.Contains(message, "cannot start any token") && strings.HasPrefix(strings.TrimLeft(lines[at.Line-1], " "), "\t"):
		hint = "YAML is indented with spaces, not with tabs"
	case strings.HasPrefix(message, "did not find expected"):
		hint = "look for wrong indentation or a missing quote, here or further down"
	}
	p.Add(at, hint, "not valid YAML: %s", message)
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

// yamlConverter converts the parser's nodes, which have no aliases, to ours.
type yamlConverter struct {
	*fields.Problems
	file string
}

func (c *yamlConverter) at(n *yaml.Node) fields.Place {
	return fields.Place{File: c.file, Line: n.Line, Column: n.Column}
}

func (c *yamlConverter) convert(n *yaml.Node) *fields.Node {
	switch n.Kind {
	case yaml.MappingNode:
		return c.mapping(n)
	case yaml.SequenceNode:
		out := &fields.Node{Kind: fields.List, At: c.at(n)}
		c.checkTag(n, "!!seq")
		for _, item := range n.Content {
			out.Items = append(out.Items, c.convert(item))
		}
		return out
	default:
		return c.scalar(n)
	}
}

var scalarKinds = map[string]fields.Kind{
	"!!null": fields.Null, "!!bool": fields.Bool, "!!int": fields.Int, "!!float": fields.Float, "!!str": fields.Text,
	"!!timestamp": fields.Text, // a date is text, as in JSON
}

// scalar converts a scalar. Of explicit tags it only accepts !!str, which quotes.
func (c *yamlConverter) scalar(n *yaml.Node) *fields.Node {
	k, ok := scalarKinds[n.ShortTag()]
	if !ok || n.Style&yaml.TaggedStyle != 0 && k != fields.Text {
		c.Add(c.at(n), "remove the tag", "the YAML tag %s is not supported", n.Tag)
		k = fields.Text
	}
	return &fields.Node{Kind: k, Text: n.Value, At: c.at(n)}
}

func (c *yamlConverter) checkTag(n *yaml.Node, want string) {
	if got := n.ShortTag(); got != want {
		c.Add(c.at(n), "remove the tag", "the YAML tag %s is not supported here", got)
	}
}

// mapping converts the keys of n, then adds keys from merge keys (<<) that n does not have.
func (c *yamlConverter) mapping(n *yaml.Node) *fields.Node {
	c.checkTag(n, "!!map")
	out := &fields.Node{Kind: fields.Mapping, At: c.at(n)}
	var merges []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Kind == yaml.ScalarNode && k.ShortTag() == "!!merge" {
			merges = append(merges, v)
			continue
		}
		key := c.convert(k)
		value := c.convert(v)
		if key.Kind == fields.List || key.Kind == fields.Mapping {
			c.Add(key.At, "", "a key must be plain text, not %s", key)
			continue
		}
		addField(out, &fields.Field{Name: key.Text, At: c.at(k), Value: value}, c.Problems)
	}
	for _, m := range merges {
		c.merge(out, m)
	}
	return out
}

func (c *yamlConverter) merge(into *fields.Node, n *yaml.Node) {
	from := c.convert(n)
	sources := []*fields.Node{from}
	if from.Kind == fields.List {
		sources = from.Items
	}
	for _, source := range sources {
		if source.Kind != fields.Mapping {
			c.Add(c.at(n), "", "<< must be given mappings, not %s", source)
			continue
		}
		for _, f := range source.Fields {
			if into.Field(f.Name) == nil {
				into.Add(f)
			}
		}
	}
}

// addField appends f to n's fields. If n has a field of that name, it reports a problem instead.
func addField(n *fields.Node, f *fields.Field, p *fields.Problems) {
	if first := n.Field(f.Name); first != nil {
		p.Add(f.At, "keep one of them", "duplicate key %q: also in line %d", fields.Shorten(f.Name), first.At.Line)
		return
	}
	n.Add(f)
}
