package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/lib/fields"
)

type schema = fields.Schema

// Schema returns the JSON Schema (draft 2020-12) of a job file, for editors. Load refuses
// everything that it refuses, and may refuse more: Load also checks variables, directories and
// names.
func Schema() ([]byte, error) {
	root := jobFile.Struct(reflect.TypeFor[Job]())
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

// jobFile is the dialect for the schema and the decoding of job files.
var jobFile = fields.Dialect{
	Closed:  true,
	Default: defaultNode,
	Words: fields.Words{
		Name: func(p fields.Path) string { return cmp.Or(p.String(), "a job file") },
		Text: "text", List: "a list", Mapping: "a mapping",
		ListHint:       "begin each entry with \"- \"",
		MappingHint:    asEntry,
		NoPlaceholders: "it is expanded in agents[].env, models.*.api_key and models.*.headers only",
	},
	Types: map[reflect.Type]schema{
		reflect.TypeFor[Bytes]():     {"type": []string{"integer", "string"}, "pattern": bytePattern},
		reflect.TypeFor[MilliCPUs](): {"type": []string{"number", "string"}, "pattern": milliPattern},
		reflect.TypeFor[Duration]():  {"type": "string", "pattern": durationPattern},
		reflect.TypeFor[map[string]string](): {
			"type": "object", "propertyNames": schema{"pattern": variableName.String()},
			"additionalProperties": schema{"type": []string{"string", "number", "boolean"}},
		},
		reflect.TypeFor[Headers](): {"type": "object", "additionalProperties": schema{"type": []string{"string"}}},
	},
	Structs: map[reflect.Type]func(schema){
		reflect.TypeFor[agent.Agent](): scriptRules,
		reflect.TypeFor[Dataset](): func(s schema) {
			s["anyOf"] = []schema{{"required": []string{"path"}}, {"required": []string{"registry", "name"}}}
		},
		reflect.TypeFor[Registry](): func(s schema) { s["anyOf"] = []schema{{"required": []string{"path"}}, {"required": []string{"url"}}} },
	},
}

// The syntax of quantity.Bytes, quantity.MilliCPUs and quantity.Duration, as regular expressions of
// any dialect.
const (
	number       = `^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)`
	bytePattern  = number + `([kMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]+)?$`
	milliPattern = number + `([mkMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]+)?$`

	durationPattern = `^\+?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`
)

// scriptRules adds that built-in agents take no scripts and that others need execute.
func scriptRules(s schema) {
	none := schema{"enum": []any{"", nil}}
	s["if"] = schema{"required": []string{"name"}, "properties": schema{"name": schema{"enum": []string{agent.Oracle, agent.Nop}}}}
	s["then"] = schema{"properties": schema{"install": none, "execute": none}}
	s["else"] = schema{"required": []string{"execute"}, "properties": schema{"execute": schema{"type": "string", "pattern": `\S`}}}
}
