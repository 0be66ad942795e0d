package fields

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/lib/quantity"
)

// Words are the terms for the values of a kind of file in messages, and hints on its notation.
type Words struct {
	Name                func(Path) string // of a value
	Text, List, Mapping string            // "text", "a list", "a mapping"
	ListHint            string            // for something else in place of a list
	NoPlaceholders      string            // the hint for ${…}, if the files are closed
	// Example returns the hint for a value of the wrong type, if there is no better one. nil: there
	// is none.
	Example func(Rules) string
	// MappingHint returns the hint for n in place of the mapping at p, which has the keys all; nil:
	// any keys.
	MappingHint func(n *Node, p Path, all []Rules) string
}

// Decodable is implemented by types that decode their values themselves. DecodeNode reports whether
// n, which has a value, is valid; if not, it has reported a problem.
type Decodable interface {
	DecodeNode(d *Decoder, n *Node, p Path, r Rules) bool
}

// Decoder sets Go values from nodes by the rules in their tags. It reports an invalid value and
// leaves it at its default. It records the paths of invalid values, so that later checks skip them.
type Decoder struct {
	*Problems
	Dialect Dialect
	Root    *Node
	// Unknown reports the keys of the mapping at p that are not in known.
	Unknown    func(n *Node, p Path, unknown []*Field, known []string)
	bad, badIn map[string]bool // badIn has the parents, too
}

// NewDecoder returns a decoder of one file, whose tree is root.
func NewDecoder(dialect Dialect, root *Node, p *Problems) *Decoder {
	return &Decoder{Problems: p, Dialect: dialect, Root: root, bad: map[string]bool{}, badIn: map[string]bool{}}
}

// Decode decodes the whole tree into the struct that to points to.
func (d *Decoder) Decode(to any) { d.decode(d.Root, nil, reflect.ValueOf(to).Elem(), Rules{}) }

// Spoil marks the value at p as invalid.
func (d *Decoder) Spoil(p Path) {
	d.bad[p.String()] = true
	for n := range len(p) + 1 {
		d.badIn[p[:n].String()] = true
	}
}

// Bad reports whether the value at p is invalid.
func (d *Decoder) Bad(p Path) bool { return len(d.bad) > 0 && d.bad[p.String()] }

// BadBelow reports whether the value at p, or a value in it, is invalid.
func (d *Decoder) BadBelow(p Path) bool { return len(d.bad) > 0 && d.badIn[p.String()] }

// Problem reports a problem with the value at p, unless one has been reported for it.
func (d *Decoder) Problem(p Path, hint, format string, args ...any) {
	if !d.Bad(p) {
		d.Spoil(p)
		d.Add(d.Root.Locate(p, false), hint, format, args...)
	}
}

// Wrong reports a problem with n, the value at p. It returns false.
func (d *Decoder) Wrong(n *Node, p Path, hint, format string, args ...any) bool {
	d.Spoil(p)
	d.Add(n.At, hint, format, args...)
	return false
}

// MustBe reports that n, the value at p, is not the wanted kind of value, unless the rules describe
// the value better. It returns false.
func (d *Decoder) MustBe(n *Node, p Path, r Rules, wanted, hint string) bool {
	got, words := n.String(), d.Dialect.Words
	switch n.Kind {
	case Text:
		got = fmt.Sprintf("the %s %q", strings.TrimPrefix(words.Text, "a "), Shorten(n.Text))
	case List:
		got = words.List
	case Mapping:
		got = words.Mapping
	}
	hint = cmp.Or(r.Hint, hint)
	if hint == "" && words.Example != nil {
		hint = words.Example(r)
	}
	return d.Wrong(n, p, hint, "%s must be %s, not %s", words.Name(p), cmp.Or(r.Is, wanted), got)
}

// decode sets v from n, or to its default if n is invalid or nil, which means that the key is
// missing.
func (d *Decoder) decode(n *Node, p Path, v reflect.Value, r Rules) {
	if n == nil || n.Kind == Null || !d.value(n, p, v, r) {
		d.setDefault(v, r)
	}
}

// Value decodes n, the value at p, into the target of to, and reports whether n is valid.
func (d *Decoder) Value(n *Node, p Path, to any, r Rules) bool {
	return d.value(n, p, reflect.ValueOf(to).Elem(), r)
}

func (d *Decoder) value(n *Node, p Path, v reflect.Value, r Rules) bool {
	if own, ok := v.Addr().Interface().(Decodable); ok {
		return own.DecodeNode(d, n, p, r)
	}
	switch kind := v.Kind(); {
	case kind == reflect.Pointer:
		target := reflect.New(v.Type().Elem())
		if !d.value(n, p, target.Elem(), r) {
			return false
		}
		v.Set(target)
		return true
	case r.Unit == "bytes":
		return d.amount(n, p, v, r, quantity.Bytes)
	case r.Unit == "duration":
		return d.amount(n, p, v, r, quantity.Duration)
	case r.Unit == "cpus":
		return d.amount(n, p, v, r, quantity.MilliCPUs)
	case r.Unit == "count":
		return d.amount(n, p, v, r, quantity.Count)
	case r.Unit == "share":
		return d.share(n, p, v, r)
	case kind == reflect.Struct:
		return d.structure(n, p, v, r)
	case kind == reflect.Slice:
		return d.list(n, p, v, r)
	case kind == reflect.Map:
		return d.mapping(n, p, v, r)
	case kind == reflect.String:
		return d.text(n, p, v, r)
	case kind == reflect.Bool:
		return d.boolean(n, p, v, r)
	case kind == reflect.Int:
		return d.integer(n, p, v, r)
	case kind == reflect.Float64:
		return d.float(n, p, v, r)
	default:
		panic(fmt.Sprintf("no rule for %s at %s", v.Type(), p))
	}
}

// setDefault sets v as if its key were missing.
func (d *Decoder) setDefault(v reflect.Value, r Rules) {
	switch {
	case r.Default != "":
		n := d.Dialect.Default(r)
		r.Default = ""
		d.value(n, nil, v, r)
	case v.Kind() == reflect.Struct:
		for _, r := range Of(v.Type()) {
			d.setDefault(v.FieldByIndex(r.Index), r)
		}
	}
}

func (d *Decoder) structure(n *Node, p Path, v reflect.Value, r Rules) bool {
	all := Of(v.Type())
	if i := slices.IndexFunc(all, func(r Rules) bool { return r.Short }); i >= 0 && n.Kind == Text {
		n = &Node{Kind: Mapping, At: n.At, Fields: []*Field{{Name: all[i].Key, At: n.At, Value: n}}}
	}
	if words := d.Dialect.Words; n.Kind != Mapping {
		return d.MustBe(n, p, r, words.Mapping, words.MappingHint(n, p, all))
	}
	known := Names(all)
	var unknown []*Field
	for _, f := range n.Fields {
		if !slices.Contains(known, f.Name) {
			unknown = append(unknown, f)
		}
	}
	if len(unknown) > 0 {
		d.Unknown(n, p, unknown, known)
	}
	for i := range all {
		r := &all[i]
		value, field := d.given(n, r), v.FieldByIndex(r.Index)
		if value == nil && r.Required && len(p) > 0 {
			d.Spoil(p.Child(r.Key))
			d.Add(n.At, r.Hint, "%s needs %q", d.Dialect.Words.Name(p), r.Key)
		}
		if r.MB != "" {
			if mb := n.Given(r.MB); mb != nil && d.megabytes(value, mb, p, field, *r) {
				continue
			}
		}
		if value == nil {
			d.setDefault(field, *r)
		} else {
			d.decode(value, p.Child(r.Key), field, *r)
		}
	}
	return true
}

// given returns the value of a key, or nil if it has none. In files that are not closed, an empty
// text counts as no value.
func (d *Decoder) given(n *Node, r *Rules) *Node {
	value := n.Given(r.Key)
	if value != nil && value.Kind == Text && value.Text == "" && !d.Dialect.Closed && r.Type.Kind() == reflect.String {
		return nil
	}
	return value
}

// megabytes sets v from mb, the value of the key of an amount in megabytes, unless amount is the
// one that counts.
func (d *Decoder) megabytes(amount, mb *Node, p Path, v reflect.Value, r Rules) bool {
	at := p.Child(r.MB)
	if amount != nil {
		if amount.At.IsFlag() == mb.At.IsFlag() {
			name := d.Dialect.Words.Name
			d.setDefault(v, r)
			d.Wrong(mb, at, "keep one of them", "%s and %s are the same setting", name(p.Child(r.Key)), name(Path{r.MB}))
			return true
		}
		if amount.At.IsFlag() { // a flag wins over the file
			return false
		}
	}
	bounds := Rules{Key: r.MB, Default: "2048", Type: reflect.TypeFor[int](), Min: r.Min, Max: r.Max, Above: r.Above, Is: "a whole number of megabytes"}
	if mb.Kind == Text && !d.Dialect.Closed {
		d.MustBe(mb, at, bounds, "", unquote(mb))
		d.setDefault(v, r)
		return true
	}
	target := v
	if v.Kind() == reflect.Pointer {
		target = reflect.New(v.Type().Elem()).Elem()
	}
	switch ok := d.amount(mb, at, target, bounds, quantity.MiB); {
	case !ok:
		d.setDefault(v, r)
	case v.Kind() == reflect.Pointer:
		v.Set(target.Addr())
	}
	return true
}

func (d *Decoder) list(n *Node, p Path, v reflect.Value, r Rules) bool {
	words := d.Dialect.Words
	if n.Kind != List {
		return d.MustBe(n, p, r, words.List, words.ListHint)
	}
	if r.Most != nil && float64(len(n.Items)) > r.Most.Value {
		return d.Wrong(n, p, "", "%s has %d entries, and may have %s", words.Name(p), len(n.Items), r.Most.Text)
	}
	if len(n.Items) == 0 && r.Default == "" {
		return true // equal to no list, also in JSON
	}
	out := reflect.MakeSlice(v.Type(), len(n.Items), len(n.Items))
	for i, item := range n.Items {
		at := p.Index(i)
		if item.Kind == Null || item.Kind == Text && item.Text == "" && !d.Dialect.Closed {
			d.Wrong(item, at, "remove it", "%s is empty", words.Name(at))
			continue
		}
		d.decode(item, at, out.Index(i), Rules{Raw: r.Raw})
	}
	v.Set(out)
	return true
}

// mapping decodes a mapping with arbitrary keys: variables (text as written) or a provider's
// settings (anything).
func (d *Decoder) mapping(n *Node, p Path, v reflect.Value, r Rules) bool {
	if words := d.Dialect.Words; n.Kind != Mapping {
		return d.MustBe(n, p, r, words.Mapping, words.MappingHint(n, p, nil))
	}
	if len(n.Fields) == 0 {
		return true
	}
	v.Set(reflect.MakeMap(v.Type()))
	for _, f := range n.Fields {
		at := p.Child(f.Name)
		switch m := v.Interface().(type) {
		case map[string]string:
			if s, ok := d.variable(f.Value, at); ok {
				m[f.Name] = s
			}
		case map[string]any:
			m[f.Name] = d.anything(f.Value, at)
		default:
			one := reflect.New(v.Type().Elem()).Elem()
			if d.value(f.Value, at, one, Rules{Key: f.Name, Type: one.Type(), Raw: true}) {
				v.SetMapIndex(reflect.ValueOf(f.Name), one)
			}
		}
	}
	return true
}
