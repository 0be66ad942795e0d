// Package fields describes the keys of files by the tags of struct fields. From the tags it decodes
// files of any format into structs, with problems that name the place and the remedy, and makes
// JSON Schemas for editors.
package fields

import (
	"cmp"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/org/rollout-action/internal/lib/quantity"
)

// Rules are the tags of one struct field, which describe its key in a file:
//
//	yaml:"key"          the key; toml:"key" in a TOML file; toml:"-" is none
//	doc:"…"             for users
//	default:"…"         if the key is missing or has no value (see Dialect.Default), instead of
//	                    the zero value
//	required:"true"     there is no default
//	min, max, above     inclusive and exclusive bounds of a number or a quantity
//	enum:"a,b"          the valid values; see Enumerated
//	mb:"key_mb"         another key for the same amount, in megabytes
//	most:"1000"         how many entries a list may have
//	short:"true"        a text in place of the mapping is the value of this key alone
//	raw:"true"          any text is valid: also blank, or with ${…}
//	pattern:"…"         a regular expression that the text matches
//	unit:"bytes"        a quantity such as 2G; unit:"cpus": such as 500m;
//	                    unit:"duration": such as 90m;
//	                    unit:"count": a number such as 2000000, 500k or 2M
//	                    unit:"share": a number or a percentage, 0.2 or 20%
//	is:"a name"         what the value is, for "must be …"
//	hint:"write …"      how to write it, for messages about it
type Rules struct {
	Key             string
	Doc             string
	Default         string
	Required, Raw   bool
	Short           bool
	Min, Max, Above *Bound
	Most            *Bound
	Enum            []string
	MB              string
	Pattern         string
	Unit            string
	Is, Hint        string
	Type            reflect.Type
	Index           []int // as reflect's FieldByIndex takes it
	matches         *regexp.Regexp
}

// Enumerated is implemented by structs with keys whose valid values are not in their tags, because
// a table has them.
type Enumerated interface {
	// ValuesOf returns the valid values of a key; nil for the other keys.
	ValuesOf(key string) []string
}

// Bound is the bound of a number. Its tag may have a unit, for messages: 1Mi, 0.001 seconds, a day,
// a year.
type Bound struct {
	Value float64
	Text  string // as in the tag
}

// known caches the rules of types.
var known sync.Map

// Of returns the rules of a struct type, including embedded structs. It panics on invalid tags,
// which are bugs. The result is shared and must not be changed.
func Of(t reflect.Type) []Rules {
	if out, ok := known.Load(t); ok {
		return out.([]Rules)
	}
	var out []Rules
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous || !f.IsExported() || f.Tag.Get("toml") == "-" { // the fields of an embedded struct come next
			continue
		}
		r := Rules{
			Key:      cmp.Or(f.Tag.Get("yaml"), f.Tag.Get("toml")),
			Doc:      f.Tag.Get("doc"),
			Default:  f.Tag.Get("default"),
			Required: f.Tag.Get("required") == "true",
			Raw:      f.Tag.Get("raw") == "true",
			Short:    f.Tag.Get("short") == "true",
			Min:      bound(f, "min"),
			Max:      bound(f, "max"),
			Above:    bound(f, "above"),
			Most:     bound(f, "most"),
			MB:       f.Tag.Get("mb"),
			Pattern:  f.Tag.Get("pattern"),
			Unit:     f.Tag.Get("unit"),
			Is:       f.Tag.Get("is"),
			Hint:     f.Tag.Get("hint"),
			Type:     f.Type,
			Index:    f.Index,
			matches:  pattern(f.Tag.Get("pattern")),
		}
		if enum := f.Tag.Get("enum"); enum != "" {
			r.Enum = strings.Split(enum, ",")
		}
		if of, ok := reflect.Zero(t).Interface().(Enumerated); ok && r.Enum == nil {
			r.Enum = of.ValuesOf(r.Key)
		}
		if r.Key == "" {
			panic(fmt.Sprintf("%s.%s has no tag for its key", t, f.Name))
		}
		out = append(out, r)
	}
	known.Store(t, out)
	return out
}

func bound(f reflect.StructField, tag string) *Bound {
	text := f.Tag.Get(tag)
	if text == "" {
		return nil
	}
	digits := strings.NewReplacer("a day", "86400", "a year", "31536000", " seconds", "").Replace(text)
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		bytes, qerr := quantity.Bytes(text)
		if qerr != nil {
			panic(fmt.Sprintf("%s: %s:%q: %v", f.Name, tag, text, qerr))
		}
		n = float64(bytes)
	}
	return &Bound{n, text}
}

// Names returns the names of all keys, including those in megabytes.
func Names(all []Rules) []string {
	var out []string
	for _, r := range all {
		out = append(out, r.Key)
		if r.MB != "" {
			out = append(out, r.MB)
		}
	}
	return out
}
