package config

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/org/rollout-action/internal/agent"
)

// schema is a JSON Schema; encoding/json sorts its keys, so equal schemas are equal bytes.
type schema map[string]any

// Schema returns the JSON Schema (draft 2020-12) of a job file, for editors. Load refuses everything that it refuses, and may
// refuse more: Load also checks variables, directories and names.
func Schema() ([]byte, error) {
	root := structSchema(reflect.TypeFor[Job]())
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "Rollout job"
	root["description"] = "Agents, the tasks they are evaluated on, and how: job.yaml or job.json."
	nonEmpty := func(key string) schema {
		return schema{"required": []string{key}, "properties": schema{key: schema{"type": "array", "minItems": 1}}}
	}
	root["anyOf"] = []schema{nonEmpty("datasets"), nonEmpty("tasks")}
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the schema of a job file: %w", err)
	}
	return append(out, '\n'), nil
}

// structSchema returns the schema of a mapping with known keys.
func structSchema(t reflect.Type) schema {
	properties, required, both := schema{}, []string{}, []schema{}
	for _, r := range rulesOf(t) {
		properties[r.key] = keySchema(r)
		if r.required {
			required = append(required, r.key)
		}
		if r.mb != "" {
			properties[r.mb] = schema{
				"description": r.key + " as a whole number of megabytes (2^20 bytes).",
				"type":        []string{"integer", "null"}, "minimum": 1,
			}
			both = append(both, notBoth(r.key, r.mb))
		}
	}
	s := schema{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	if len(both) > 0 {
		s["allOf"] = both
	}
	switch t {
	case reflect.TypeFor[agent.Agent]():
		scriptRules(s)
	case reflect.TypeFor[Dataset]():
		s["anyOf"] = []schema{{"required": []string{"path"}}, {"required": []string{"registry", "name"}}}
	case reflect.TypeFor[Registry]():
		s["anyOf"] = []schema{{"required": []string{"path"}}, {"required": []string{"url"}}}
	}
	return s
}

// keySchema returns the schema of one key by its rules. A key that is not required may be null.
func keySchema(r rules) schema {
	s := typeSchema(r.typ, r.raw)
	s["description"] = r.doc
	if r.defaultYAML != "" {
		s["default"] = defaultNode(r).plainValue()
	}
	for name, bound := range map[string]*float64{"minimum": r.min, "maximum": r.max, "exclusiveMinimum": r.above} {
		if bound != nil {
			s[name] = *bound
		}
	}
	if r.most != nil {
		s["maxItems"] = int(*r.most)
	}
	if r.enum != nil {
		var values []any
		for _, v := range r.enum {
			values = append(values, v)
		}
		s["enum"] = values
		delete(s, "pattern")
	}
	if r.required {
		if r.typ.Kind() == reflect.Slice {
			s["minItems"] = 1
		}
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

// The syntax of quantity.Bytes and quantity.MilliCPUs, as regular expressions of any dialect.
const (
	number       = `^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)`
	bytePattern  = number + `([kMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]+)?$`
	milliPattern = number + `([mkMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]+)?$`
)

func typeSchema(t reflect.Type, raw bool) schema {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[Bytes]():
		return schema{"type": []string{"integer", "string"}, "pattern": bytePattern}
	case t == reflect.TypeFor[MilliCPUs]():
		return schema{"type": []string{"number", "string"}, "pattern": milliPattern}
	case t == reflect.TypeFor[map[string]string]():
		return schema{
			"type": "object", "propertyNames": schema{"pattern": variableName.String()},
			"additionalProperties": schema{"type": []string{"string", "number", "boolean"}},
		}
	}
	switch t.Kind() {
	case reflect.Struct:
		return structSchema(t)
	case reflect.Slice:
		return schema{"type": "array", "items": typeSchema(t.Elem(), false)}
	case reflect.Map:
		return schema{"type": "object"}
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.Int:
		return schema{"type": "integer"}
	case reflect.Float64:
		return schema{"type": "number"}
	case reflect.String:
		if raw {
			return schema{"type": "string"}
		}
		return schema{"type": "string", "pattern": `\S`}
	default:
		panic(fmt.Sprintf("no schema for %s", t))
	}
}

// notBoth returns a schema that refuses two keys that both have a value.
func notBoth(a, b string) schema {
	value := schema{"not": schema{"type": "null"}}
	return schema{"not": schema{"required": []string{a, b}, "properties": schema{a: value, b: value}}}
}

// scriptRules adds that built-in agents take no scripts and that others need execute.
func scriptRules(s schema) {
	none := schema{"enum": []any{"", nil}}
	s["if"] = schema{"required": []string{"name"}, "properties": schema{"name": schema{"enum": []string{agent.Oracle, agent.Nop}}}}
	s["then"] = schema{"properties": schema{"install": none, "execute": none}}
	s["else"] = schema{"required": []string{"execute"}, "properties": schema{"execute": schema{"type": "string", "pattern": `\S`}}}
}

// plainValue returns n in the types of encoding/json and JSON Schema validators.
func (n *node) plainValue() any {
	switch n.kind {
	case boolean:
		return n.text == "true"
	case integer, float:
		return json.Number(n.text)
	case text:
		return n.text
	case list:
		out := []any{}
		for _, item := range n.items {
			out = append(out, item.plainValue())
		}
		return out
	case mapping:
		out := map[string]any{}
		for _, f := range n.fields {
			out[f.name] = f.value.plainValue()
		}
		return out
	}
	return nil
}
