package judge

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/org/rollout-action/internal/lib/excerpt"
)

// The bounds of the schema library's work, which cannot be interrupted. Alternatives that refer to
// alternatives double the work with each step, and those that refer to the schema itself double it
// with each level of the verdict.
const (
	maxEffort   = 300_000   // of checking a verdict: a second at most
	maxInPlace  = 10_000    // of checking a single value, without its parts
	maxSampling = 1_000_000 // of checking all samples of a schema
)

var errDynamic = errors.New("$dynamicRef and $recursiveRef are not supported: write $ref")

// checkEffort refuses schemas that refer to themselves without an end, and schemas that compare
// even a number too often.
func checkEffort(root *jsonschema.Schema) error {
	w := &weights{inPlace: map[*jsonschema.Schema]int{}}
	open, seen := []*jsonschema.Schema{root}, map[*jsonschema.Schema]bool{root: true}
	for len(open) > 0 {
		s := open[len(open)-1]
		open = open[:len(open)-1]
		if s.DynamicRef != nil || s.RecursiveRef != nil {
			return errDynamic
		}
		if _, err := w.of(s); err != nil {
			return err
		}
		for _, part := range append(inPlace(s), inside(s)...) {
			if !seen[part] {
				seen[part] = true
				open = append(open, part)
			}
		}
	}
	return nil
}

// weights holds how many schemas a value is compared with, by the schema that it must fit. Schemas
// that are being computed have 0.
type weights struct{ inPlace map[*jsonschema.Schema]int }

func (w *weights) of(s *jsonschema.Schema) (int, error) {
	n, known := w.inPlace[s]
	switch {
	case known && n == 0:
		return 0, fmt.Errorf("it refers to itself without an end: %s", place(s))
	case known:
		return n, nil
	}
	w.inPlace[s] = 0
	n = 1
	for _, part := range inPlace(s) {
		more, err := w.of(part)
		if err != nil {
			return 0, err
		}
		if n += more; n > maxInPlace {
			return 0, fmt.Errorf("it compares a single value with more than %d schemas, because alternatives refer to alternatives: %s", maxInPlace, place(s))
		}
	}
	w.inPlace[s] = n
	return n, nil
}

// place returns the location of a schema in its document.
func place(s *jsonschema.Schema) string {
	return excerpt.Line(strings.TrimPrefix(s.Location, schemaName), maxShown)
}

// inPlace returns the schemas that a value is compared with because it is compared with s.
func inPlace(s *jsonschema.Schema) []*jsonschema.Schema {
	out := slices.Concat([]*jsonschema.Schema{s.Ref, s.Not, s.If, s.Then, s.Else}, s.AllOf, s.AnyOf, s.OneOf, slices.Collect(maps.Values(s.DependentSchemas)))
	for _, d := range s.Dependencies {
		if one, ok := d.(*jsonschema.Schema); ok {
			out = append(out, one)
		}
	}
	return present(out)
}

// inside returns the schemas that parts of a value are compared with because the value is compared
// with s.
func inside(s *jsonschema.Schema) []*jsonschema.Schema {
	return present(slices.Concat(
		slices.Collect(maps.Values(s.Properties)), slices.Collect(maps.Values(s.PatternProperties)), s.PrefixItems, listed(s),
		[]*jsonschema.Schema{single(s.AdditionalProperties), s.UnevaluatedProperties, s.PropertyNames, single(s.Items), single(s.AdditionalItems), s.Items2020, s.Contains, s.UnevaluatedItems, s.ContentSchema},
	))
}

func present(all []*jsonschema.Schema) []*jsonschema.Schema {
	return slices.DeleteFunc(all, func(s *jsonschema.Schema) bool { return s == nil })
}

// single returns a keyword's schema; nil if the keyword has a boolean or a list, or is not there.
func single(v any) *jsonschema.Schema {
	s, _ := v.(*jsonschema.Schema)
	return s
}

// listed returns the schemas of items given as a list, as in drafts before 2020-12.
func listed(s *jsonschema.Schema) []*jsonschema.Schema {
	list, _ := s.Items.([]*jsonschema.Schema)
	return list
}

// effort returns the maximum number of comparisons for checking a value. It stops counting above
// the limit.
func effort(s *jsonschema.Schema, value any, limit int) int {
	e := &efforts{limit: limit, known: map[pair]int{}}
	return e.of(s, e.part(value))
}

// part is a part of a value. Each has a different number.
type part struct {
	value  any
	nth    int
	fields map[string]*part
	items  []*part
	names  []*part // of the fields
}

type pair struct {
	schema *jsonschema.Schema
	nth    int
}

type efforts struct {
	limit int
	parts int
	known map[pair]int
}

func (e *efforts) part(v any) *part {
	p := &part{value: v, nth: e.parts}
	e.parts++
	switch v := v.(type) {
	case map[string]any:
		p.fields = make(map[string]*part, len(v))
		for name, field := range v {
			p.fields[name] = e.part(field)
			p.names = append(p.names, e.part(name))
		}
	case []any:
		for _, item := range v {
			p.items = append(p.items, e.part(item))
		}
	}
	return p
}

func (e *efforts) of(s *jsonschema.Schema, p *part) int {
	key := pair{s, p.nth}
	if n, ok := e.known[key]; ok {
		return n
	}
	n := e.alone(s, p)
	add := func(s *jsonschema.Schema, p *part) {
		if s != nil && n <= e.limit {
			n += e.of(s, p)
		}
	}
	for _, one := range inPlace(s) {
		add(one, p)
	}
	for name, field := range p.fields {
		add(s.Properties[name], field)
		for pattern, one := range s.PatternProperties {
			if pattern.MatchString(name) {
				add(one, field)
			}
		}
		add(single(s.AdditionalProperties), field)
		add(s.UnevaluatedProperties, field)
	}
	for _, name := range p.names {
		add(s.PropertyNames, name)
	}
	first := append(listed(s), s.PrefixItems...)
	for i, item := range p.items {
		if i < len(first) {
			add(first[i], item)
		}
		for _, one := range []*jsonschema.Schema{single(s.Items), single(s.AdditionalItems), s.Items2020, s.Contains, s.UnevaluatedItems} {
			add(one, item)
		}
	}
	e.known[key] = n
	return n
}

// alone returns the effort of checking a value itself, without its parts.
func (e *efforts) alone(s *jsonschema.Schema, p *part) int {
	n := 1 + len(p.fields)*(1+len(s.PatternProperties)) + len(s.Required)/16
	if s.Enum != nil {
		n += len(s.Enum.Values) / 16
	}
	if text, ok := p.value.(string); ok && (s.Pattern != nil || s.MinLength != nil || s.MaxLength != nil || s.Format != nil) {
		n += len(text) / 64
	}
	if s.UniqueItems {
		n += len(p.items)
	}
	return n
}
