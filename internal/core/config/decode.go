package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/fields"
)

// decoder decodes a job file.
type decoder struct {
	*fields.Decoder
	harbor bool // a key is one of Harbor's job files
}

func newDecoder(root *fields.Node, p *fields.Problems) *decoder {
	d := &decoder{Decoder: fields.NewDecoder(jobFile, root, p)}
	d.Unknown = d.unknownKeys
	return d
}

// defaults caches the parsed default tags by their text. The nodes must not be changed.
var defaults sync.Map

// defaultNode returns the parsed default tag.
func defaultNode(r fields.Rules) *fields.Node {
	if n, ok := defaults.Load(r.Default); ok {
		return n.(*fields.Node)
	}
	var p fields.Problems
	n := parseYAML("default of "+r.Key, []byte(r.Default), &p)
	if n == nil || len(p.List) > 0 {
		panic(p.List.Error())
	}
	defaults.Store(r.Default, n)
	return n
}

// asEntry returns the hint for a scalar in place of a mapping: to write it as the value of the
// required key or of path. A path with :// becomes a url.
func asEntry(n *fields.Node, at fields.Path, all []fields.Rules) string {
	switch {
	case all == nil:
		return "write key: value"
	case len(at) == 0: // the job file as a whole
		return "rollout init makes an example"
	}
	i := slices.IndexFunc(all, func(r fields.Rules) bool { return r.Required })
	if i < 0 {
		i = slices.IndexFunc(all, func(r fields.Rules) bool { return r.Key == "path" })
	}
	ok := n.Kind == fields.Text
	if i < 0 && n.Kind == fields.Int { // as in "confirm: 4" of a gate
		i = slices.IndexFunc(all, func(r fields.Rules) bool { return r.Type.Kind() == reflect.Int })
		ok = true
	}
	if i < 0 || !ok || len(n.Text) > 60 {
		return ""
	}
	key := all[i].Key
	if key == "path" && strings.Contains(n.Text, "://") && slices.ContainsFunc(all, func(r fields.Rules) bool { return r.Key == "url" }) {
		key = "url"
	}
	return fmt.Sprintf("write {%s: %s}", key, n.Text)
}

func (d *decoder) unknownKeys(_ *fields.Node, p fields.Path, unknown []*fields.Field, known []string) {
	for _, f := range unknown {
		if theirs, ok := harborNames[f.Name]; ok {
			d.harbor = true
			d.Add(f.At, theirs, "unknown key %q%s", f.Name, p.In())
			continue
		}
		hint := ""
		if !d.Full(diag.Error) {
			hint = cmp.Or(diag.DidYouMean(f.Name, known), belongsIn(f.Name))
		}
		d.Add(f.At, hint, "unknown key %q%s", fields.Shorten(f.Name), p.In())
	}
}
