package task

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strconv"

	"github.com/org/rollout-action/internal/core/judge"
	"github.com/org/rollout-action/internal/lib/fields"
)

// file declares the keys of task.toml, for decoding and for the schema. Tables that are not in
// Config are for reader, which makes the checks that tags cannot express.
type file struct {
	Version       string   `toml:"version" default:"1.0" doc:"Version of the task configuration format."`
	SchemaVersion string   `toml:"schema_version" doc:"Accepted in place of version, for tasks written for Harbor."`
	Source        string   `toml:"source" doc:"Where the task comes from."`
	Metadata      anyTable `toml:"metadata" doc:"Free data of the task's author."`
	Info          Info     `toml:"task" doc:"The task's name in registries, and its authors. Changes nothing."`
	Verifier      struct {
		Verifier
		Own       separateKeys   `toml:"environment" doc:"The environment of the tests, if it is not the agent's: \"fresh\" is a new one of the task's image; a table has the keys of [environment]. Only artifacts are carried over."`
		Artifacts []artifactKeys `toml:"artifacts" most:"100" hint:"write artifacts = [\"/app\"]" doc:"Further artifacts, which the tests need in an environment apart."`
		Network   networkMode    `toml:"network_mode" enum:"public,none,no-network,allowlist" doc:"As environment.network, while the verifier runs."`
		hostKeys
	} `toml:"verifier" doc:"How tests/test.sh runs."`
	Agent struct {
		Agent
		Network networkMode `toml:"network_mode" enum:"public,none,no-network,allowlist" doc:"As environment.network, while the agent works. Its install script has the environment's."`
		hostKeys
	} `toml:"agent" doc:"How the agent runs."`
	Environment environmentKeys `toml:"environment" doc:"The environment of the trial, and its limits."`
	Solution    Solution        `toml:"solution" doc:"How solution/solve.sh runs, for the agent oracle."`
	Artifacts   []artifactKeys  `toml:"artifacts" most:"100" hint:"write artifacts = [\"/app/output\"]" doc:"Files and directories that are copied out of the environment when the agent is done, into the trial's directory artifacts."`
	Judges      []judge.Spec    `toml:"judges" most:"20" hint:"write [[judges]]" doc:"Agents that grade the work of the evaluated agents, in addition to the job's judges. A model is a name in models of the job."`
	Strategy    string          `toml:"multi_step_reward_strategy" enum:"mean,final" doc:"The reward of a task with steps: the mean of its steps' rewards, by name (default), or those of the last step that ran."`
	Steps       []stepKeys      `toml:"steps" most:"100" hint:"write [[steps]]" doc:"Steps of the task, which run one after the other in one environment: each has an instruction, a run of the agent and tests, in steps/NAME."`
	Reward      string          `toml:"reward" doc:"Expression whose value is the reward of a trial, from 0 to 1, over tests, rewards and scores: 0.7 * tests + 0.3 * scores.quality. The job's wins. Default: tests alone."`
}

type environmentKeys struct {
	Environment
	Network              string      `toml:"network" enum:"public,none,allowlist" doc:"The network of the environment: everything (default), nothing, or allowed_hosts by way of a proxy."`
	NetworkMode          networkMode `toml:"network_mode" enum:"public,none,no-network,allowlist" doc:"Harbor's name for network."`
	AllowInternet        *bool       `toml:"allow_internet" doc:"Harbor's older key: false is network = \"none\"."`
	NetworkDuringInstall bool        `toml:"network_during_install" doc:"The network is public while the agent is installed."`
	NetworkDuringVerify  bool        `toml:"network_during_verify" doc:"The network is public while the verifier runs."`
	hostKeys
}

type hostKeys struct {
	AllowedHosts []string `toml:"allowed_hosts" is:"a list of hosts" hint:"write allowed_hosts = [\"pypi.org\"]" doc:"The hosts that an allowlist allows: names (pypi.org), all below a name (*.pypi.org), addresses, ranges of them (10.0.0.0/8); with a port, or 80 and 443."`
}

type artifactKeys struct {
	Artifact
}

// anyTable is a table whose values are not decoded.
type anyTable map[string]any

// DecodeNode only checks that it is a table.
func (*anyTable) DecodeNode(d *fields.Decoder, n *fields.Node, p fields.Path, r fields.Rules) bool {
	return n.Kind == fields.Mapping || d.MustBe(n, p, r, "a table", "write ["+p.String()+"]")
}

// dialect is the dialect for the schema and the decoding of task.toml.
var dialect = fields.Dialect{
	Types: map[reflect.Type]fields.Schema{
		reflect.TypeFor[looseText]():    {},
		reflect.TypeFor[looseTexts]():   {},
		reflect.TypeFor[looseAuthors](): {},
		reflect.TypeFor[networkMode]():  {}, // the enum says it all
		reflect.TypeFor[MilliCPUs]():    {"type": []string{"string", "number"}},
		reflect.TypeFor[Size]():         {"type": "string"},
		reflect.TypeFor[User]():         {"type": []string{"string", "integer"}, "minimum": 0},
		reflect.TypeFor[minReward](): {"anyOf": []fields.Schema{
			{"type": "number"}, {"type": "object", "additionalProperties": fields.Schema{"type": "number"}},
		}},
		reflect.TypeFor[Env]():      {"type": "object", "additionalProperties": fields.Schema{"type": "string"}},
		reflect.TypeFor[patterns](): {"type": "array", "items": fields.Schema{"type": "string", "minLength": 1}},
	},
	Structs: map[reflect.Type]func(fields.Schema){
		reflect.TypeFor[separateKeys](): func(s fields.Schema) { // or fresh
			environmentSchema(s)
			table := maps.Clone(s)
			clear(s)
			s["anyOf"] = []fields.Schema{{"type": "string", "enum": []string{freshEnvironment}}, table}
		},
		reflect.TypeFor[artifactKeys](): func(s fields.Schema) { // or only its source
			table := maps.Clone(s)
			clear(s)
			s["anyOf"] = []fields.Schema{{"type": "string", "pattern": "^/.*[^/].*$"}, table}
		},
		reflect.TypeFor[environmentKeys](): environmentSchema,
	},
	Default: fields.ScalarDefault,
	Words: fields.Words{
		Name: func(p fields.Path) string { return strconv.Quote(p.String()) },
		Text: "a string", List: "an array", Mapping: "a table",
		ListHint:    "write it in brackets",
		Example:     example,
		MappingHint: func(_ *fields.Node, p fields.Path, _ []fields.Rules) string { return "write [" + p.String() + "]" },
	},
}

// environmentSchema adds to the schema of environmentKeys what its tags cannot say.
func environmentSchema(s fields.Schema) {
	one := func(a, b string) fields.Schema {
		return fields.Schema{"not": fields.Schema{"required": []string{a, b}}}
	}
	s["allOf"] = []fields.Schema{one("memory", "memory_mb"), one("storage", "storage_mb")}
	megabytes := func(key, what string) {
		s["properties"].(fields.Schema)[key+"_mb"] = fields.Schema{
			"description": what + " of the environment in units of 2^20 bytes, instead of " + key + ".",
			"type":        "number", "minimum": 1, "multipleOf": 1,
		}
	}
	megabytes("memory", "Memory")
	megabytes("storage", "Storage")
}

// example returns a line of TOML that sets a key.
func example(r fields.Rules) string {
	t := r.Type
	if t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == nil:
		return ""
	case t.Kind() == reflect.String:
		return "write " + r.Key + ` = "..."`
	case t.Kind() == reflect.Bool:
		return "write " + r.Key + " = true"
	case r.Default != "":
		return "write " + r.Key + " = " + r.Default
	}
	return ""
}

// Schema returns the JSON Schema (draft-07, as in the specification) of task.toml, for editors.
// Load refuses all that it refuses, except that a missing version is only a warning, and that tasks
// written for Harbor may give a size in both forms; Load also checks quantities.
func Schema() ([]byte, error) {
	root := dialect.Struct(reflect.TypeFor[file]())
	root["$schema"] = "http://json-schema.org/draft-07/schema#"
	root["title"] = "Rollout task"
	root["description"] = "The configuration of a task: task.toml. Keys that are not listed have no effect."
	root["anyOf"] = []fields.Schema{{"required": []string{"version"}}, {"required": []string{"schema_version"}}}
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the schema of task.toml: %w", err)
	}
	return append(out, '\n'), nil
}
