package config

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/org/rollout-action/internal/diag"
	"github.com/org/rollout-action/internal/quantity"
)

// decoder fills Go values from nodes by the rules in their tags. A value that is wrong is reported
// and left at its default; bad remembers where, so that later checks keep quiet about it.
type decoder struct {
	*problems
	bad map[string]bool
}

// wrong reports a problem with the value at p.
func (d *decoder) wrong(n *node, p keyPath, hint, format string, args ...any) {
	d.bad[p.String()] = true
	d.add(n.at, hint, format, args...)
}

// mustBe reports a value of the wrong type.
func (d *decoder) mustBe(n *node, p keyPath, wanted, hint string) {
	name := p.String()
	if name == "" {
		name = "a job file"
	}
	d.wrong(n, p, hint, "%s must be %s, not %s", name, wanted, n)
}

// decode sets v from n, which may be nil when there is nothing to read.
func (d *decoder) decode(n *node, p keyPath, v reflect.Value, r rules) {
	if n == nil || n.kind == null {
		d.setDefault(n, p, v, r)
		return
	}
	switch v.Addr().Interface().(type) {
	case *Bytes:
		d.amount(n, p, v, r, quantity.Bytes)
		return
	case *MilliCPUs:
		d.amount(n, p, v, r, quantity.MilliCPUs)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		target := reflect.New(v.Type().Elem())
		d.decode(n, p, target.Elem(), r)
		if !d.bad[p.String()] {
			v.Set(target)
		}
	case reflect.Struct:
		d.structure(n, p, v)
	case reflect.Slice:
		d.list(n, p, v, r)
	case reflect.Map:
		d.mapping(n, p, v)
	case reflect.String:
		d.text(n, p, v, r)
	case reflect.Bool:
		d.boolean(n, p, v)
	case reflect.Int:
		d.integer(n, p, v, r)
	case reflect.Float64:
		d.float(n, p, v, r)
	default:
		panic(fmt.Sprintf("no rule for %s at %s", v.Type(), p))
	}
}

// setDefault is for keys that are absent or have no value.
func (d *decoder) setDefault(n *node, p keyPath, v reflect.Value, r rules) {
	switch {
	case v.Kind() == reflect.Struct:
		empty := &node{kind: mapping}
		if n != nil {
			empty.at = n.at
		}
		d.structure(empty, p, v)
	case r.defaultYAML != "":
		d.decode(defaultNode(r), p, v, rules{})
	}
}

// defaultNode parses the default tag.
func defaultNode(r rules) *node {
	var p problems
	n := parseYAML("default of "+r.key, []byte(r.defaultYAML), &p)
	if n == nil || len(p.list) > 0 {
		panic(p.list.Error())
	}
	return n
}

func (d *decoder) structure(n *node, p keyPath, v reflect.Value) {
	all := rulesOf(v.Type())
	if n.kind != mapping {
		d.mustBe(n, p, "a mapping", asEntry(n, all))
		return
	}
	known := keysOf(all)
	for _, f := range n.fields {
		if !slices.Contains(known, f.name) {
			d.unknownKey(f, p, known)
		}
	}
	for _, r := range all {
		value := n.given(r.key)
		if value == nil && r.required && len(p) > 0 {
			d.bad[p.child(r.key).String()] = true
			d.add(n.at, r.doc, "%s needs %q", p, r.key)
			continue
		}
		field := v.Field(r.index)
		if r.mb != "" && d.megabytes(n, p, field, r) {
			continue
		}
		if value == nil && n.field(r.key) != nil {
			value = n.field(r.key).value
		}
		d.decode(value, p.child(r.key), field, r)
	}
}

// asEntry is the hint for a scalar that stands where a mapping with a required key should: the key.
func asEntry(n *node, all []rules) string {
	i := slices.IndexFunc(all, func(r rules) bool { return r.required })
	if i < 0 || n.kind != text || len(n.text) > 60 {
		return ""
	}
	return fmt.Sprintf("write %s: %s", all[i].key, n.text)
}

func (d *decoder) unknownKey(f *field, p keyPath, known []string) {
	if hint, ok := later[f.name]; ok {
		d.add(f.at, hint, "%q is not supported yet", f.name)
		return
	}
	hint := diag.DidYouMean(f.name, known)
	if hint == "" {
		hint = belongsIn(f.name)
	}
	d.add(f.at, hint, "unknown key %q%s", shorten(f.name), p.in())
}

// megabytes reads the other key of an amount, if that is the one to be read.
func (d *decoder) megabytes(n *node, p keyPath, v reflect.Value, r rules) bool {
	amount, mb := n.given(r.key), n.given(r.mb)
	if mb == nil {
		return false
	}
	if amount != nil {
		if amount.at.isFlag() == mb.at.isFlag() {
			d.wrong(mb, p.child(r.mb), "keep one of them", "%s and %s are the same setting", p.child(r.key), r.mb)
			return true
		}
		if amount.at.isFlag() { // a flag wins over the file
			return false
		}
	}
	target := reflect.New(v.Type().Elem())
	at := p.child(r.mb)
	d.amount(mb, at, target.Elem(), r, quantity.MiB)
	if !d.bad[at.String()] {
		v.Set(target)
	}
	return true
}

func (d *decoder) list(n *node, p keyPath, v reflect.Value, r rules) {
	if n.kind != list {
		d.mustBe(n, p, "a list", "begin each entry with \"- \"")
		return
	}
	out := reflect.MakeSlice(v.Type(), len(n.items), len(n.items))
	for i, item := range n.items {
		if item.kind == null {
			d.wrong(item, p.index(i), "remove it", "%s is empty", p.index(i))
			continue
		}
		d.decode(item, p.index(i), out.Index(i), rules{raw: r.raw})
	}
	v.Set(out)
}

// mapping decodes free keys: variables (text as written) or a provider's settings (anything).
func (d *decoder) mapping(n *node, p keyPath, v reflect.Value) {
	if n.kind != mapping {
		d.mustBe(n, p, "a mapping", "")
		return
	}
	if len(n.fields) == 0 {
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for _, f := range n.fields {
		at := p.child(f.name)
		switch m := v.Interface().(type) {
		case map[string]string:
			if s, ok := d.variable(f.value, at); ok {
				m[f.name] = s
			}
		case map[string]any:
			m[f.name] = d.anything(f.value, at)
		}
	}
}

// variable reads the value of an environment variable: any scalar, as it is written.
func (d *decoder) variable(n *node, p keyPath) (string, bool) {
	switch {
	case n.at.isFlag() && n.kind != text:
		return n.typed, true
	case n.kind == null:
		d.wrong(n, p, `write "" for the empty text`, "%s has no value", p)
		return "", false
	case n.kind == list || n.kind == mapping:
		d.mustBe(n, p, "text", "")
		return "", false
	case strings.ContainsRune(n.text, 0):
		d.wrong(n, p, "", "%s must not hold a NUL character", p)
		return "", false
	}
	return n.text, true
}

func (d *decoder) text(n *node, p keyPath, v reflect.Value, r rules) {
	s := n.text
	switch {
	case n.kind == text:
	case n.at.isFlag(): // what was typed is what is meant
		s = n.typed
	case n.kind == list || n.kind == mapping:
		d.mustBe(n, p, "text", "")
		return
	default:
		d.mustBe(n, p, "text", fmt.Sprintf("write it in quotes: %q", n.text))
		return
	}
	switch {
	case strings.ContainsRune(s, 0):
		d.wrong(n, p, "", "%s must not hold a NUL character", p)
	case !r.raw && strings.TrimSpace(s) == "":
		d.wrong(n, p, "", "%s must not be empty", p)
	case !r.raw && strings.Contains(s, "${"):
		d.wrong(n, p, "it is expanded in agents[].env only", "%s must not hold ${…}: %q", p, shorten(s))
	case len(r.enum) > 0 && !slices.Contains(r.enum, s):
		d.wrong(n, p, diag.DidYouMean(s, r.enum), "%s must be one of %s, not %q", p, strings.Join(r.enum, ", "), shorten(s))
	default:
		v.SetString(s)
	}
}

func (d *decoder) boolean(n *node, p keyPath, v reflect.Value) {
	switch value := strings.ToLower(n.text); {
	case n.kind == boolean && (value == "true" || value == "false"):
		v.SetBool(value == "true")
	case slices.Contains([]string{"yes", "on", "y"}, value):
		d.mustBe(n, p, "true or false", "write true")
	case slices.Contains([]string{"no", "off", "n"}, value):
		d.mustBe(n, p, "true or false", "write false")
	default:
		d.mustBe(n, p, "true or false", "")
	}
}

func (d *decoder) integer(n *node, p keyPath, v reflect.Value, r rules) {
	f, ok := n.number()
	if !ok || f != math.Trunc(f) || math.IsInf(f, 0) {
		d.mustBe(n, p, "a whole number", unquote(n))
		return
	}
	if d.inBounds(n, p, f, r) {
		v.SetInt(int64(f))
	}
}

func (d *decoder) float(n *node, p keyPath, v reflect.Value, r rules) {
	f, ok := n.number()
	if !ok {
		d.mustBe(n, p, "a number", unquote(n))
		return
	}
	if d.inBounds(n, p, f, r) {
		v.SetFloat(f)
	}
}

// unquote is the hint for a number in quotes.
func unquote(n *node) string {
	if n.kind == text {
		if _, err := strconv.ParseFloat(n.text, 64); err == nil {
			return "write it without quotes"
		}
	}
	return ""
}

// number is the value of an integer or float node; not-a-number and infinity included.
func (n *node) number() (float64, bool) {
	switch n.kind {
	case integer:
		if i, err := strconv.ParseInt(n.text, 0, 64); err == nil {
			return float64(i), true
		}
	case float:
	default:
		return 0, false
	}
	switch strings.TrimLeft(strings.ToLower(n.text), "+-") {
	case ".nan":
		return math.NaN(), true
	case ".inf":
		return math.Inf(map[bool]int{true: -1, false: 1}[strings.HasPrefix(n.text, "-")]), true
	}
	f, err := strconv.ParseFloat(n.text, 64)
	return f, err == nil || math.IsInf(f, 0)
}

// amount reads a number or a quantity. read says what is wrong with the text.
func (d *decoder) amount(n *node, p keyPath, v reflect.Value, r rules, read func(string) (int64, error)) {
	if n.kind != integer && n.kind != float && n.kind != text {
		d.mustBe(n, p, "a number or a quantity", "")
		return
	}
	amount, err := read(n.text)
	if err != nil {
		d.wrong(n, p, "", "%s: %v", p, err)
		return
	}
	if d.inBounds(n, p, float64(amount), r) {
		v.SetInt(amount)
	}
}

func (d *decoder) inBounds(n *node, p keyPath, f float64, r rules) bool {
	got := shorten(n.text)
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		d.wrong(n, p, "", "%s must be a finite number, not %s", p, got)
	case r.min != nil && f < *r.min:
		d.wrong(n, p, "", "%s must be at least %s, not %s", p, plain(*r.min, r.typ), got)
	case r.max != nil && f > *r.max:
		d.wrong(n, p, "", "%s must be at most %s, not %s", p, plain(*r.max, r.typ), got)
	case r.above != nil && f <= *r.above:
		d.wrong(n, p, "", "%s must be more than %s, not %s", p, plain(*r.above, r.typ), got)
	default:
		return true
	}
	return false
}

// plain writes a bound without an exponent; whole mebibytes as such.
func plain(f float64, t reflect.Type) string {
	bytes := t == reflect.TypeFor[Bytes]() || t == reflect.TypeFor[*Bytes]()
	if bytes && f >= 1<<20 && math.Mod(f, 1<<20) == 0 {
		return strconv.FormatFloat(f/(1<<20), 'f', -1, 64) + "Mi"
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

// anything reads a provider's setting: map[string]any, []any, string, bool, nil, int or float64.
// Whole numbers are int however they are written, so that they survive JSON.
func (d *decoder) anything(n *node, p keyPath) any {
	switch n.kind {
	case null:
		return nil
	case boolean:
		return strings.EqualFold(n.text, "true")
	case text:
		var s string
		d.text(n, p, reflect.ValueOf(&s).Elem(), rules{raw: !strings.Contains(n.text, "${")})
		return s
	case list:
		out := make([]any, len(n.items))
		for i, item := range n.items {
			out[i] = d.anything(item, p.index(i))
		}
		return out
	case mapping:
		out := make(map[string]any, len(n.fields))
		for _, f := range n.fields {
			out[f.name] = d.anything(f.value, p.child(f.name))
		}
		return out
	}
	f, ok := n.number()
	if !ok || !d.inBounds(n, p, f, rules{}) {
		if !ok {
			d.mustBe(n, p, "a number", "")
		}
		return nil
	}
	const exact = 1 << 53
	if f == math.Trunc(f) && math.Abs(f) < exact {
		return int(f)
	}
	return f
}
