package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/org/rollout-action/internal/diag"
	"github.com/org/rollout-action/internal/keys"
	"github.com/org/rollout-action/internal/quantity"
)

// decoder sets Go values from nodes by the rules in their tags. It reports an invalid value and leaves it at its default. bad
// has the paths of invalid values, so that later checks skip them; badIn has their parents, too.
type decoder struct {
	*problems
	bad, badIn map[string]bool
	harbor     bool // a key is one of Harbor's job files
}

func newDecoder(p *problems) *decoder {
	return &decoder{problems: p, bad: map[string]bool{}, badIn: map[string]bool{}}
}

// spoil marks the value at p as invalid.
func (d *decoder) spoil(p keyPath) {
	d.bad[p.String()] = true
	for n := range len(p) + 1 {
		d.badIn[p[:n].String()] = true
	}
}

// badBelow reports whether the value at p, or a value in it, is invalid.
func (d *decoder) badBelow(p keyPath) bool { return d.badIn[p.String()] }

// wrong reports a problem with the value at p.
func (d *decoder) wrong(n *node, p keyPath, hint, format string, args ...any) {
	d.spoil(p)
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

// decode sets v from n. n may be nil if the key is missing.
func (d *decoder) decode(n *node, p keyPath, v reflect.Value, r keys.Rules) {
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

// setDefault sets v for a key that is missing or has no value.
func (d *decoder) setDefault(n *node, p keyPath, v reflect.Value, r keys.Rules) {
	switch {
	case v.Kind() == reflect.Struct:
		empty := &node{kind: mapping}
		if n != nil {
			empty.at = n.at
		}
		d.structure(empty, p, v)
	case r.Default != "":
		n := defaultNode(r)
		r.Default = ""
		d.decode(n, p, v, r)
	}
}

// defaults caches the parsed default tags by their text. The nodes must not be changed.
var defaults sync.Map

// defaultNode returns the parsed default tag.
func defaultNode(r keys.Rules) *node {
	if n, ok := defaults.Load(r.Default); ok {
		return n.(*node)
	}
	var p problems
	n := parseYAML("default of "+r.Key, []byte(r.Default), &p)
	if n == nil || len(p.list) > 0 {
		panic(p.list.Error())
	}
	defaults.Store(r.Default, n)
	return n
}

func (d *decoder) structure(n *node, p keyPath, v reflect.Value) {
	all := keys.Of(v.Type())
	if n.kind != mapping {
		d.mustBe(n, p, "a mapping", asEntry(n, all))
		return
	}
	known := keys.Names(all)
	for _, f := range n.fields {
		if !slices.Contains(known, f.name) {
			d.unknownKey(f, p, known)
		}
	}
	for _, r := range all {
		value := n.given(r.Key)
		if value == nil && r.Required && len(p) > 0 {
			d.spoil(p.child(r.Key))
			d.add(n.at, "", "%s needs %q", p, r.Key)
			continue
		}
		field := v.FieldByIndex(r.Index)
		if r.MB != "" && d.megabytes(n, p, field, r) {
			continue
		}
		if value == nil && n.field(r.Key) != nil {
			value = n.field(r.Key).value
		}
		d.decode(value, p.child(r.Key), field, r)
	}
}

// asEntry returns the hint for a scalar in place of a mapping that has a required key: to write the key. A path may also be
// meant as something else.
func asEntry(n *node, all []keys.Rules) string {
	i := slices.IndexFunc(all, func(r keys.Rules) bool { return r.Required })
	if i < 0 {
		i = slices.IndexFunc(all, func(r keys.Rules) bool { return r.Key == "path" })
	}
	ok := n.kind == text
	if i < 0 && n.kind == integer { // as in "confirm: 4" of a gate
		i = slices.IndexFunc(all, func(r keys.Rules) bool { return r.Type.Kind() == reflect.Int })
		ok = true
	}
	if i < 0 || !ok || len(n.text) > 60 {
		return ""
	}
	key := all[i].Key
	if key == "path" && strings.Contains(n.text, "://") && slices.ContainsFunc(all, func(r keys.Rules) bool { return r.Key == "url" }) {
		key = "url"
	}
	return fmt.Sprintf("write {%s: %s}", key, n.text)
}

func (d *decoder) unknownKey(f *field, p keyPath, known []string) {
	if hint, ok := later[f.name]; ok {
		d.add(f.at, hint, "%q is not supported yet", f.name)
		return
	}
	if theirs, ok := harborNames[f.name]; ok {
		d.harbor = true
		d.add(f.at, theirs, "unknown key %q%s", f.name, p.in())
		return
	}
	hint := ""
	if !d.full() {
		hint = cmp.Or(diag.DidYouMean(f.name, known), belongsIn(f.name))
	}
	d.add(f.at, hint, "unknown key %q%s", shorten(f.name), p.in())
}

// megabytes reads the key of an amount in megabytes, if it is the one that counts.
func (d *decoder) megabytes(n *node, p keyPath, v reflect.Value, r keys.Rules) bool {
	amount, mb := n.given(r.Key), n.given(r.MB)
	if mb == nil {
		return false
	}
	if amount != nil {
		if amount.at.isFlag() == mb.at.isFlag() {
			d.wrong(mb, p.child(r.MB), "keep one of them", "%s and %s are the same setting", p.child(r.Key), r.MB)
			return true
		}
		if amount.at.isFlag() { // a flag wins over the file
			return false
		}
	}
	target := reflect.New(v.Type().Elem())
	at := p.child(r.MB)
	d.amount(mb, at, target.Elem(), r, quantity.MiB)
	if !d.bad[at.String()] {
		v.Set(target)
	}
	return true
}

func (d *decoder) list(n *node, p keyPath, v reflect.Value, r keys.Rules) {
	if n.kind != list {
		d.mustBe(n, p, "a list", "begin each entry with \"- \"")
		return
	}
	if r.Most != nil && float64(len(n.items)) > *r.Most {
		d.wrong(n, p, "", "%s has %d entries, and may have %.0f", p, len(n.items), *r.Most)
		return
	}
	if len(n.items) == 0 && r.Default == "" {
		return // equal to no list, also in JSON
	}
	out := reflect.MakeSlice(v.Type(), len(n.items), len(n.items))
	for i, item := range n.items {
		if item.kind == null {
			d.wrong(item, p.index(i), "remove it", "%s is empty", p.index(i))
			continue
		}
		d.decode(item, p.index(i), out.Index(i), keys.Rules{Raw: r.Raw})
	}
	v.Set(out)
}

// mapping decodes a mapping with arbitrary keys: variables (text as written) or a provider's settings (anything).
func (d *decoder) mapping(n *node, p keyPath, v reflect.Value) {
	if n.kind != mapping {
		d.mustBe(n, p, "a mapping", "write key: value")
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
