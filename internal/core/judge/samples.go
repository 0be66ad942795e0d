package judge

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The bounds of samples.
const (
	maxSamples = 400 // of a verdict
	maxInner   = 24  // of an object in it
	maxOptions = 8   // of each value
	maxNesting = 8
	maxListed  = 20     // elements of a list
	maxLetters = 10_000 // of a text
	unbounded  = 1e3    // a number, the elements of a list and the letters of a text where the schema has no bound
	maxTries   = 3000
)

// sampler makes values that fit schemas: the smallest, the largest and those between that matter.
type sampler struct {
	tries  int
	effort int // of all comparisons that are left
}

// sample returns values that fit a schema. If none can exist, why is the reason; otherwise it is
// "", also if none was found.
func sample(s *jsonschema.Schema) (values []any, why string) {
	return (&sampler{tries: maxTries, effort: maxSampling}).values([]*jsonschema.Schema{s}, nil, 0)
}

// values returns values that fit all of the schemas. Of those in decided, the alternatives (anyOf,
// oneOf) are in the list already.
func (s *sampler) values(all []*jsonschema.Schema, decided map[*jsonschema.Schema]bool, depth int) ([]any, string) {
	if s.tries--; depth > maxNesting || s.tries < 0 {
		return nil, ""
	}
	all = conjunction(all)
	for _, one := range all {
		if alternatives := slices.Concat(one.AnyOf, one.OneOf); len(alternatives) > 0 && !decided[one] {
			return s.alternatives(all, one, alternatives, decided, depth)
		}
	}
	candidates, closed, why := s.candidates(all, depth)
	if why != "" {
		return nil, why
	}
	fitting := s.fitting(candidates, all)
	if len(fitting) == 0 && closed && s.effort > 0 {
		return nil, "none of its values fits"
	}
	return fitting, ""
}

// alternatives returns values that fit all of the schemas and one of the alternatives of schema
// one.
func (s *sampler) alternatives(all []*jsonschema.Schema, one *jsonschema.Schema, alternatives []*jsonschema.Schema, decided map[*jsonschema.Schema]bool, depth int) ([]any, string) {
	decided = maps.Clone(decided)
	if decided == nil {
		decided = map[*jsonschema.Schema]bool{}
	}
	decided[one] = true
	var out []any
	reasons := 0
	why := ""
	for _, alternative := range alternatives {
		values, no := s.values(append(slices.Clip(all), alternative), decided, depth+1)
		if no != "" {
			reasons++
			why = no
		}
		out = append(out, values...)
	}
	if reasons < len(alternatives) {
		why = ""
	}
	return s.fitting(out, all), why
}

// conjunction returns schemas with all that they include by $ref and allOf.
func conjunction(all []*jsonschema.Schema) []*jsonschema.Schema {
	var out []*jsonschema.Schema
	var add func(*jsonschema.Schema)
	add = func(s *jsonschema.Schema) {
		if s == nil || slices.Contains(out, s) || len(out) > maxSamples {
			return
		}
		out = append(out, s)
		add(s.Ref)
		for _, one := range s.AllOf {
			add(one)
		}
	}
	for _, s := range all {
		add(s)
	}
	return out
}

// fitting returns the distinct values that fit all of the schemas, up to a limit. When the effort
// is spent, it returns those found so far.
func (s *sampler) fitting(values []any, all []*jsonschema.Schema) []any {
	var out []any
	seen := map[string]bool{}
	for _, v := range values {
		text, err := json.Marshal(v)
		if err != nil || seen[string(text)] || !s.fits(v, all) {
			continue
		}
		seen[string(text)] = true
		if out = append(out, v); len(out) == maxSamples {
			break
		}
	}
	return out
}

// fits reports whether a value fits all of the schemas. It returns false if checking would take too
// long.
func (s *sampler) fits(v any, all []*jsonschema.Schema) bool {
	return !slices.ContainsFunc(all, func(one *jsonschema.Schema) bool {
		s.effort -= effort(one, v, maxEffort)
		return s.effort <= 0 || one.Validate(v) != nil
	})
}

// allTypes are the types of JSON.
var allTypes = []string{"object", "array", "number", "string", "boolean", "null"}

// candidates returns values that may fit all of the schemas. closed reports that there are no
// others.
func (s *sampler) candidates(all []*jsonschema.Schema, depth int) (values []any, closed bool, why string) {
	types := allTypes
	for _, one := range all {
		if one.Bool != nil && !*one.Bool {
			return nil, true, "nothing is allowed"
		}
		if one.Types != nil {
			has := one.Types.ToStrings()
			types = slices.DeleteFunc(slices.Clone(types), func(t string) bool {
				return !slices.Contains(has, t) && !(t == "number" && slices.Contains(has, "integer"))
			})
		}
	}
	if len(types) == 0 {
		return nil, true, "its types exclude each other"
	}
	for _, one := range all {
		switch {
		case one.Const != nil:
			return []any{*one.Const}, true, ""
		case one.Enum != nil && len(one.Enum.Values) == 0:
			return nil, true, "its enum is empty"
		case one.Enum != nil:
			return one.Enum.Values, true, ""
		}
	}
	open, exact := false, true
	for _, t := range types {
		var of []any
		no := ""
		switch t {
		case "object":
			of, no = s.objects(all, depth)
		case "array":
			of, no = s.lists(all, depth)
		case "number":
			of, no = numbers(all)
		case "string":
			of, no = texts(all)
		case "boolean":
			of = []any{false, true}
		case "null":
			of = []any{nil}
		}
		exact = exact && (t == "boolean" || t == "null")
		open = open || no == ""
		why = cmp.Or(why, no)
		values = append(values, of...)
	}
	if open {
		why = ""
	}
	return values, exact, why
}

// numbers returns numbers, in ascending order.
func numbers(all []*jsonschema.Schema) ([]any, string) {
	low, high := math.Inf(-1), math.Inf(1)
	whole := slices.ContainsFunc(all, func(s *jsonschema.Schema) bool {
		return s.Types != nil && slices.Contains(s.Types.ToStrings(), "integer") && !slices.Contains(s.Types.ToStrings(), "number")
	})
	var step float64
	openLow, openHigh := false, false
	for _, s := range all {
		if v, ok := float(s.Minimum); ok && v > low {
			low, openLow = v, false
		}
		if v, ok := float(s.ExclusiveMinimum); ok && v >= low {
			low, openLow = v, true
		}
		if v, ok := float(s.Maximum); ok && v < high {
			high, openHigh = v, false
		}
		if v, ok := float(s.ExclusiveMaximum); ok && v <= high {
			high, openHigh = v, true
		}
		if v, ok := float(s.MultipleOf); ok {
			step = max(step, v)
		}
	}
	if low > high || low == high && (openLow || openHigh) {
		return nil, fmt.Sprintf("its minimum %v is above its maximum %v", low, high)
	}
	if first, last := math.Ceil(low), math.Floor(high); whole {
		if openLow && first == low {
			first++
		}
		if openHigh && last == high {
			last--
		}
		if first > last {
			return nil, fmt.Sprintf("there is no whole number from %v to %v", low, high)
		}
		low, high, openLow, openHigh = first, last, false, false
	}
	if math.IsInf(low, 0) {
		low = min(-unbounded, high-unbounded)
	}
	if math.IsInf(high, 0) {
		high = max(unbounded, low+unbounded)
	}
	small := (high - low) / 1e6
	if openLow {
		low += small
	}
	if openHigh {
		high -= small
	}
	candidates := []float64{low, high, 0, 1, 0.5, (low + high) / 2, math.Floor((low + high) / 2)}
	if step > 0 {
		candidates = append(candidates, math.Ceil(low/step)*step, math.Floor(high/step)*step)
	}
	candidates = slices.DeleteFunc(candidates, func(v float64) bool { return v < low || v > high || whole && v != math.Trunc(v) })
	slices.Sort(candidates)
	var out []any
	for _, v := range slices.Compact(candidates) {
		out = append(out, v)
	}
	return out, ""
}

func float(r *big.Rat) (float64, bool) {
	if r == nil {
		return 0, false
	}
	v, _ := r.Float64()
	return v, true
}

// texts returns texts. It largely ignores patterns and formats.
func texts(all []*jsonschema.Schema) ([]any, string) {
	least, most := 0, math.MaxInt
	for _, s := range all {
		if s.MinLength != nil {
			least = max(least, *s.MinLength)
		}
		if s.MaxLength != nil {
			most = min(most, *s.MaxLength)
		}
	}
	if least > most {
		return nil, fmt.Sprintf("its minLength %d is above its maxLength %d", least, most)
	}
	if least > maxLetters {
		return nil, ""
	}
	return []any{"a", strings.Repeat("a", min(most, max(least, unbounded))), strings.Repeat("a", least), "yes", "1", "2030-01-01", ""}, ""
}

// elements holds what schemas together require of a list and its elements.
type elements struct {
	least, most int
	first       map[int][]*jsonschema.Schema // of the elements at these places
	items       []*jsonschema.Schema         // of all others
}

func elementsOf(all []*jsonschema.Schema) elements {
	e := elements{most: math.MaxInt, first: map[int][]*jsonschema.Schema{}}
	for _, one := range all {
		if one.MinItems != nil {
			e.least = max(e.least, *one.MinItems)
		}
		if one.MaxItems != nil {
			e.most = min(e.most, *one.MaxItems)
		}
		prefix := one.PrefixItems
		if list, ok := one.Items.([]*jsonschema.Schema); ok { // drafts before 2020-12
			prefix = list
		}
		for i, p := range prefix {
			e.first[i] = append(e.first[i], p)
		}
		if item, ok := one.Items.(*jsonschema.Schema); ok {
			e.items = append(e.items, item)
		}
		if one.Items2020 != nil {
			e.items = append(e.items, one.Items2020)
		}
	}
	return e
}

// at returns the schemas of the element at place i.
func (e elements) at(i int) []*jsonschema.Schema {
	if first, ok := e.first[i]; ok {
		return first
	}
	return e.items
}

// lists returns lists, from the shortest to the longest.
func (s *sampler) lists(all []*jsonschema.Schema, depth int) ([]any, string) {
	e := elementsOf(all)
	if e.least > e.most {
		return nil, fmt.Sprintf("its minItems %d is above its maxItems %d", e.least, e.most)
	}
	if e.least > maxListed {
		return nil, ""
	}
	var out []any
	sizes := slices.Compact(slices.Sorted(slices.Values([]int{e.least, max(e.least, 1), e.least + 2, min(e.most, maxListed)})))
	for _, size := range sizes {
		if size > e.most {
			continue
		}
		lists, why := s.listsOf(size, e, depth)
		if why != "" && size == e.least {
			return nil, why
		}
		out = append(out, lists...)
	}
	if long := min(e.most, unbounded); long > maxListed {
		if values, _ := s.values(e.at(len(e.first)), nil, depth+1); len(values) > 0 {
			out = append(out, slices.Repeat(values[:1], long), slices.Repeat(values[len(values)-1:], long)) // the last one is always tried
		}
	}
	return out, ""
}

// listsOf returns lists of a size; none, perhaps with the reason, if an element has no values.
func (s *sampler) listsOf(size int, e elements, depth int) (out []any, why string) {
	if size == 0 {
		return []any{[]any{}}, ""
	}
	options := make([][]any, size)
	possible := true
	for i := range size {
		values, problem := s.values(e.at(i), nil, depth+1)
		if problem != "" && why == "" {
			why = fmt.Sprintf("[%d]: %s", i, problem)
		}
		options[i], possible = values, possible && len(values) > 0
	}
	if !possible {
		return nil, why
	}
	for turn := range min(maxOptions, maxLen(options)) {
		same, mixed := make([]any, size), make([]any, size)
		for i, values := range options {
			same[i] = values[min(turn, len(values)-1)]
			mixed[i] = values[(turn+i)%len(values)]
		}
		out = append(out, same, mixed)
	}
	return out, why
}

func maxLen(options [][]any) int {
	n := 0
	for _, o := range options {
		n = max(n, len(o))
	}
	return n
}

// objects returns objects, with and without their optional properties.
func (s *sampler) objects(all []*jsonschema.Schema, depth int) ([]any, string) {
	required, names := map[string]bool{}, map[string]bool{}
	for _, one := range all {
		for _, name := range one.Required {
			required[name], names[name] = true, true
		}
		for name := range one.Properties {
			names[name] = true
		}
	}
	var properties []property
	for _, name := range slices.Sorted(maps.Keys(names)) {
		of, forbidden := propertyOf(all, name)
		var values []any
		why := ""
		if forbidden {
			why = "additionalProperties forbids it"
		} else {
			values, why = s.values(of, nil, depth+1)
		}
		if why != "" && required[name] {
			return nil, fmt.Sprintf("%s, which is required: %s", name, why)
		}
		if len(values) == 0 {
			if required[name] {
				return nil, ""
			}
			continue
		}
		properties = append(properties, property{name, few(values), !required[name]})
	}
	limit := maxSamples
	if depth > 0 {
		limit = maxInner
	}
	return combine(properties, limit), ""
}

// property is a property of an object and the values that it may have.
type property struct {
	name    string
	options []any
	missing bool // it may be missing
}

// choices returns the number of ways to set the property.
func (p property) choices() int {
	if p.missing {
		return len(p.options) + 1
	}
	return len(p.options)
}

// set sets the property to its option i, or removes it.
func (p property) set(object map[string]any, i int) {
	delete(object, p.name)
	if i < len(p.options) {
		object[p.name] = p.options[i]
	}
}

// combine returns objects with all combinations of the properties' values or, if these are more
// than limit, objects that differ in one property from one of three.
func combine(properties []property, limit int) []any {
	total := 1
	for _, p := range properties {
		if total *= p.choices(); total > limit {
			break
		}
	}
	var out []any
	if total <= limit {
		for n := range total {
			object := map[string]any{}
			for _, p := range properties {
				p.set(object, n%p.choices())
				n /= p.choices()
			}
			out = append(out, object)
		}
		return out
	}
	for _, base := range []func(property) int{
		func(property) int { return 0 }, func(p property) int { return len(p.options) - 1 }, func(p property) int { return p.choices() - 1 },
	} {
		object := map[string]any{}
		for _, p := range properties {
			p.set(object, base(p))
		}
		out = append(out, object)
		for _, p := range properties {
			for i := range p.choices() {
				changed := maps.Clone(object)
				p.set(changed, i)
				out = append(out, changed)
			}
		}
	}
	return out
}

// few returns the first, the last and some other values.
func few(values []any) []any {
	if len(values) <= maxOptions {
		return values
	}
	var out []any
	for i := range maxOptions {
		out = append(out, values[i*(len(values)-1)/(maxOptions-1)])
	}
	return out
}

// propertyOf returns the schemas that a property must fit, and whether it is forbidden.
func propertyOf(all []*jsonschema.Schema, name string) (of []*jsonschema.Schema, forbidden bool) {
	for _, s := range all {
		named := false
		if p, ok := s.Properties[name]; ok {
			of, named = append(of, p), true
		}
		for pattern, p := range s.PatternProperties {
			if pattern.MatchString(name) {
				of, named = append(of, p), true
			}
		}
		if named {
			continue
		}
		switch extra := s.AdditionalProperties.(type) {
		case bool:
			forbidden = forbidden || !extra
		case *jsonschema.Schema:
			of = append(of, extra)
		}
	}
	return of, forbidden
}
