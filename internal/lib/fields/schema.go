package fields

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
)

// Schema is a JSON Schema; encoding/json sorts its keys, so equal schemas are equal bytes.
type Schema map[string]any

// Dialect describes a kind of file for schemas, encoding and decoding.
type Dialect struct {
	// Closed files have only the described keys, optional keys may be null, and text that is not
	// raw is not blank. In other files, empty text means that the key is missing.
	Closed bool
	// Types maps types to their schemas, except plain structs, lists, maps, booleans, numbers and
	// texts.
	Types map[reflect.Type]Schema
	// Structs complete the schemas of structs.
	Structs map[reflect.Type]func(Schema)
	// Default returns the default of a key that has one.
	Default func(Rules) *Node
	Words   Words // for decoders
}

// ScalarDefault is a Dialect's Default for keys with single values.
func ScalarDefault(r Rules) *Node {
	n := &Node{Kind: Text, Text: r.Default}
	switch kind := r.Type.Kind(); {
	case r.Unit != "": // quantities are text
	case kind == reflect.Bool:
		n.Kind = Bool
	case kind == reflect.Float64 || kind == reflect.Int:
		n.Kind = Float
	}
	return n
}

// Struct returns the schema of a mapping with known keys.
func (d Dialect) Struct(t reflect.Type) Schema {
	properties, required, both := Schema{}, []string{}, []Schema{}
	typ := any("object")
	for _, r := range Of(t) {
		properties[r.Key] = d.key(r)
		if r.Required {
			required = append(required, r.Key)
		}
		if r.Short {
			typ = []string{"object", "string"}
		}
		if r.MB != "" {
			properties[r.MB] = Schema{
				"description": r.Key + " as a whole number of megabytes (2^20 bytes).",
				"type":        []string{"integer", "null"}, "minimum": 1,
			}
			both = append(both, notBoth(r.Key, r.MB))
		}
	}
	s := Schema{"type": typ, "properties": properties}
	if d.Closed {
		s["additionalProperties"] = false
	}
	if len(required) > 0 {
		s["required"] = required
	}
	if len(both) > 0 {
		s["allOf"] = both
	}
	if complete := d.Structs[t]; complete != nil {
		complete(s)
	}
	return s
}

// key returns the schema of one key by its rules.
func (d Dialect) key(r Rules) Schema {
	s := d.typ(r.Type, r.Raw)
	if r.Unit == "count" {
		s["type"] = []string{"integer", "string"}
	}
	if r.Unit == "share" {
		s = Schema{"type": []string{"number", "string"}, "pattern": `^\+?[0-9]*\.?[0-9]+ ?%$`}
	}
	s["description"] = r.Doc
	if r.Default != "" {
		s["default"] = d.Default(r).plain()
	}
	for name, bound := range map[string]*Bound{"minimum": r.Min, "maximum": r.Max, "exclusiveMinimum": r.Above} {
		if bound != nil && s["type"] != "string" {
			s[name] = bound.Value
		}
	}
	if r.Most != nil {
		s["maxItems"] = int(r.Most.Value)
	}
	if r.Pattern != "" {
		s["pattern"] = r.Pattern
	}
	if r.Enum != nil {
		var values []any
		for _, v := range r.Enum {
			values = append(values, v)
		}
		s["enum"] = values
		delete(s, "pattern")
	}
	if r.Required && r.Type.Kind() == reflect.Slice {
		s["minItems"] = 1
	}
	if r.Required || !d.Closed {
		return s
	}
	switch types := s["type"].(type) {
	case string:
		s["type"] = []string{types, "null"}
	case []string:
		s["type"] = append(types, "null")
	}
	if values, ok := s["enum"].([]any); ok {
		s["enum"] = append(values, nil)
	}
	return s
}

// typ returns the schema of a type, without description.
func (d Dialect) typ(t reflect.Type, raw bool) Schema {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if s, ok := d.Types[t]; ok {
		return maps.Clone(s)
	}
	switch t.Kind() {
	case reflect.Struct:
		return d.Struct(t)
	case reflect.Slice:
		return Schema{"type": "array", "items": d.typ(t.Elem(), false)}
	case reflect.Map:
		if t.Elem().Kind() == reflect.Struct {
			return Schema{"type": "object", "additionalProperties": d.Struct(t.Elem())}
		}
		return Schema{"type": "object"}
	case reflect.Bool:
		return Schema{"type": "boolean"}
	case reflect.Int:
		return Schema{"type": "integer"}
	case reflect.Float64:
		return Schema{"type": "number"}
	case reflect.String:
		if raw || !d.Closed {
			return Schema{"type": "string"}
		}
		return Schema{"type": "string", "pattern": `\S`}
	default:
		panic(fmt.Sprintf("no schema for %s", t))
	}
}

// plain returns n in the types of encoding/json and JSON Schema validators.
func (n *Node) plain() any {
	switch n.Kind {
	case Bool:
		return n.Text == "true"
	case Int, Float:
		return json.Number(n.Text)
	case Text, Date:
		return n.Text
	case List:
		out := []any{}
		for _, item := range n.Items {
			out = append(out, item.plain())
		}
		return out
	case Mapping:
		out := map[string]any{}
		for _, f := range n.Fields {
			out[f.Name] = f.Value.plain()
		}
		return out
	}
	return nil
}

// notBoth returns a schema that refuses two keys that both have a value.
func notBoth(a, b string) Schema {
	value := Schema{"not": Schema{"type": "null"}}
	return Schema{"not": Schema{"required": []string{a, b}, "properties": Schema{a: value, b: value}}}
}
