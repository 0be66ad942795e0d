package terminalbench

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/org/rollout-action/internal/lib/aliases"
	"github.com/org/rollout-action/internal/lib/diag"
)

// Limits of a file. Instructions of real tasks have up to 100 KB.
const (
	maxSize  = 4 << 20
	maxNodes = 20_000
	maxDepth = 50
)

// file is a YAML file that is being read. The methods report problems and return zero values.
type file struct {
	name     string
	problems diag.List
}

// add records an error at a node, and warn a warning; n may be nil.
func (f *file) add(n *yaml.Node, hint, format string, args ...any) {
	d := diag.Diagnostic{File: f.name, Message: fmt.Sprintf(format, args...), Hint: hint}
	if n != nil {
		d.Line, d.Column = n.Line, n.Column
	}
	f.problems = append(f.problems, d)
}

func (f *file) warn(n *yaml.Node, hint, format string, args ...any) {
	f.add(n, hint, format, args...)
	f.problems[len(f.problems)-1].Severity = diag.Warning
}

// read returns the mapping in the file, or nil if it has recorded a problem. purpose is the hint
// for a missing file.
func (f *file) read(fsys fs.FS, purpose string) *yaml.Node {
	content, err := readFile(fsys, f.name, maxSize)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.add(nil, purpose, "is missing")
		return nil
	case err != nil:
		f.add(nil, "", "cannot be read: %v", reason(err))
		return nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	var doc, more yaml.Node
	if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
		f.add(nil, purpose, "is empty")
		return nil
	} else if err != nil {
		f.invalid(err)
		return nil
	}
	if err := decoder.Decode(&more); err == nil {
		f.add(&more, "keep one document", "a second YAML document starts here")
		return nil
	} else if !errors.Is(err, io.EOF) {
		f.invalid(err)
		return nil
	}
	if bad, _ := aliases.Inline(&doc, maxDepth, maxNodes); bad != nil {
		f.add(bad, "", "has more than %d values, or is nested too deeply, with its aliases written out", maxNodes)
		return nil
	}
	return doc.Content[0]
}

var yamlError = regexp.MustCompile(`(?s)^yaml: (?:line (\d+): )?(.*)$`)

// invalid records a syntax error.
func (f *file) invalid(err error) {
	d := diag.Diagnostic{File: f.name, Message: err.Error()}
	if m := yamlError.FindStringSubmatch(d.Message); m != nil {
		d.Line, _ = strconv.Atoi(m[1]) // 0 if there is none
		d.Message = m[2]
	}
	d.Message = "not valid YAML: " + d.Message
	f.problems = append(f.problems, d)
}

// fields returns the keys of a mapping and their values, without those that have none.
func (f *file) fields(n *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(key, value *yaml.Node) bool) {
		for key, value := range f.pairs(n) {
			if value.ShortTag() != "!!null" && !yield(key, value) {
				return
			}
		}
	}
}

// pairs returns the keys of a mapping and their values, then those that it merges in.
func (f *file) pairs(n *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(key, value *yaml.Node) bool) {
		if n.Kind != yaml.MappingNode {
			f.add(n, "", "must be a mapping, not %s", shown(n))
			return
		}
		seen := map[string]bool{}
		var merged []*yaml.Node
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			switch {
			case key.ShortTag() == "!!merge" && value.Kind == yaml.SequenceNode:
				merged = append(merged, value.Content...)
				continue
			case key.ShortTag() == "!!merge":
				merged = append(merged, value)
				continue
			case key.Kind != yaml.ScalarNode:
				f.add(key, "", "a key must be plain text")
				continue
			}
			if seen[key.Value] {
				f.add(key, "keep one of them", "duplicate key %q", short(key.Value))
				continue
			}
			seen[key.Value] = true
			if !yield(key, value) {
				return
			}
		}
		for _, source := range merged {
			for key, value := range f.pairs(source) {
				if again := seen[key.Value]; again {
					continue
				}
				seen[key.Value] = true
				if !yield(key, value) {
					return
				}
			}
		}
	}
}

func (f *file) text(n *yaml.Node, key string) string {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
		f.add(n, "", "%q must be text, not %s", key, shown(n))
		return ""
	}
	return n.Value
}

func (f *file) truth(n *yaml.Node, key string) (is bool) {
	if n.Kind != yaml.ScalarNode || n.Decode(&is) != nil {
		f.add(n, "", "%q must be true or false, not %s", key, shown(n))
	}
	return is
}

func (f *file) seconds(n *yaml.Node, key string, to *float64) {
	var seconds float64
	if n.Kind != yaml.ScalarNode || n.Decode(&seconds) != nil || !(seconds >= 0.001 && seconds <= maxSeconds) {
		f.add(n, "", "%q must be a number of seconds, not %s", key, shown(n))
		return
	}
	*to = seconds
}

// texts returns a list of texts. Numbers and the like in it are taken as they are written.
func (f *file) texts(n *yaml.Node, key string) (out []string) {
	if n.Kind != yaml.SequenceNode {
		f.add(n, "", "%q must be a list, not %s", key, shown(n))
		return nil
	}
	for _, item := range n.Content {
		if item.Kind != yaml.ScalarNode {
			f.add(item, "", "%q must be a list of texts", key)
			continue
		}
		out = append(out, item.Value)
	}
	return out
}

// shown describes a value for "must be …, not …".
func shown(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	default:
		return strconv.Quote(short(n.Value))
	}
}

// short cuts a long value, for messages.
func short(s string) string {
	const most = 60
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return s
}

func list(words []string) string { return strings.Join(words, ", ") }

// readFile returns the content of a file of at most limit bytes.
func readFile(fsys fs.FS, name string, limit int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && !info.Mode().IsRegular() {
		return nil, errors.New("it is not a file")
	}
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(content)) > limit {
		err = fmt.Errorf("it is larger than %d MiB", limit>>20)
	}
	return content, err
}

// reason returns err without operation and path, which the problem names already.
func reason(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
