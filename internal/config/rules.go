package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/org/rollout-action/internal/quantity"
)

// rules are the tags of one struct field, which describe its key in a job file:
//
//	yaml:"key"          the key
//	doc:"…"             for users
//	default:"…"         YAML, if the key is missing or has no value; otherwise the zero value
//	required:"true"     there is no default
//	min, max, above     inclusive and exclusive bounds of a number or a quantity
//	enum:"a,b"          the valid values
//	mb:"key_mb"         another key for the same amount, in megabytes
//	most:"1000"         how many entries a list may have
//	raw:"true"          any text is valid: also blank, or with ${…}
type rules struct {
	key           string
	doc           string
	defaultYAML   string
	required, raw bool
	min, max      *float64
	above         *float64
	most          *float64
	enum          []string
	mb            string
	typ           reflect.Type
	index         []int // as reflect's FieldByIndex takes it
}

// known caches the rules of types.
var known sync.Map

// rulesOf returns the rules of a struct type, including embedded structs. It panics on invalid tags, which are bugs. The result
// is shared and must not be changed.
func rulesOf(t reflect.Type) []rules {
	if out, ok := known.Load(t); ok {
		return out.([]rules)
	}
	var out []rules
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous { // its fields come next
			continue
		}
		r := rules{
			key:         f.Tag.Get("yaml"),
			doc:         f.Tag.Get("doc"),
			defaultYAML: f.Tag.Get("default"),
			required:    f.Tag.Get("required") == "true",
			raw:         f.Tag.Get("raw") == "true",
			min:         bound(f, "min"),
			max:         bound(f, "max"),
			above:       bound(f, "above"),
			most:        bound(f, "most"),
			mb:          f.Tag.Get("mb"),
			typ:         f.Type,
			index:       f.Index,
		}
		if enum := f.Tag.Get("enum"); enum != "" {
			r.enum = strings.Split(enum, ",")
		}
		if r.key == "" {
			panic(fmt.Sprintf("%s.%s has no yaml tag", t, f.Name))
		}
		out = append(out, r)
	}
	known.Store(t, out)
	return out
}

func bound(f reflect.StructField, tag string) *float64 {
	text := f.Tag.Get(tag)
	if text == "" {
		return nil
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		bytes, qerr := quantity.Bytes(text)
		if qerr != nil {
			panic(fmt.Sprintf("%s: %s:%q: %v", f.Name, tag, text, qerr))
		}
		n = float64(bytes)
	}
	return &n
}

func keysOf(all []rules) []string {
	var out []string
	for _, r := range all {
		out = append(out, r.key)
		if r.mb != "" {
			out = append(out, r.mb)
		}
	}
	return out
}
