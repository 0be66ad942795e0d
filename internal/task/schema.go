package task

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strconv"

	"github.com/org/rollout-action/internal/keys"
)

// file has the keys of task.toml: to decode it, and for its schema. See reader for what tags cannot express.
type file struct {
	Version       string   `toml:"version" default:"1.0" doc:"Version of the task configuration format."`
	SchemaVersion string   `toml:"schema_version" doc:"Accepted in place of version, for tasks written for Harbor."`
	Source        string   `toml:"source" doc:"Where the task comes from."`
	Metadata      anyTable `toml:"metadata" doc:"Whatever the author of the task wants to say."`
	Task          infoKeys `toml:"task" doc:"What the task is called in registries, and by whom it is. Changes nothing."`
	Verifier      struct {
		Timeout float64     `toml:"timeout_sec" default:"600" min:"0.001 seconds" max:"a year" is:"a number of seconds" doc:"Seconds that tests/test.sh may take."`
		User    user        `toml:"user" is:"the name or number of a user" hint:"write user = \"agent\", or user = 1000" doc:"Who runs tests/test.sh: a name or a number. Default: the image's user."`
		Env     env         `toml:"env" doc:"Variables of tests/test.sh. ${NAME} and ${NAME:-default} stand for variables of the host, which the job has to pass: environment.pass_env."`
		Network networkMode `toml:"network_mode" enum:"public,none,no-network,allowlist" doc:"As environment.network, while the verifier runs."`
		hostKeys
	} `toml:"verifier" doc:"How tests/test.sh runs."`
	Agent struct {
		InstallTimeout float64     `toml:"install_timeout_sec" default:"300" min:"0.001 seconds" max:"a year" is:"a number of seconds" doc:"Seconds that the installation of the agent may take."`
		Timeout        float64     `toml:"timeout_sec" default:"600" min:"0.001 seconds" max:"a year" is:"a number of seconds" doc:"Seconds that the agent may take. In tasks made for Harbor the default is a day."`
		User           user        `toml:"user" is:"the name or number of a user" hint:"write user = \"agent\", or user = 1000" doc:"Who runs the agent (not its installation): a name or a number. Default: the image's user."`
		Network        networkMode `toml:"network_mode" enum:"public,none,no-network,allowlist" doc:"As environment.network, while the agent works. Its install script has the environment's."`
		hostKeys
	} `toml:"agent" doc:"How the agent runs."`
	Environment environmentKeys `toml:"environment" doc:"What the trial runs in, and its limits."`
	Solution    struct {
		Env env `toml:"env" doc:"Further variables of solution/solve.sh. ${NAME} and ${NAME:-default} stand for variables of the host, which the job has to pass: environment.pass_env."`
	} `toml:"solution" doc:"How solution/solve.sh runs, for the agent oracle."`
	Artifacts []artifactKeys `toml:"artifacts" most:"100" hint:"write artifacts = [\"/app/output\"]" doc:"Files and directories that are copied out of the environment when the agent is done, into the trial's directory artifacts."`
}

type environmentKeys struct {
	BuildTimeout         float64      `toml:"build_timeout_sec" default:"600" min:"0.001 seconds" max:"a year" is:"a number of seconds" doc:"Seconds that building or pulling the image may take."`
	DockerImage          string       `toml:"docker_image" pattern:"^\\S*$" is:"the name of an image" doc:"An image to use instead of building environment/Dockerfile. It is pulled unless it is there."`
	CPUs                 cpus         `toml:"cpus" default:"1" unit:"cpus" above:"0" is:"a number of CPUs" hint:"write cpus = 2, or cpus = \"500m\"" doc:"CPUs of the environment: a number, or a Kubernetes quantity such as \"500m\"."`
	Memory               size         `toml:"memory" default:"2G" unit:"bytes" min:"1Mi" mb:"memory_mb" is:"an amount as a string" hint:"write memory = \"2G\", or memory_mb = 2048" doc:"Memory of the environment as a Kubernetes quantity: 2G is 2*10^9 bytes, 2Gi is 2*2^30."`
	Storage              size         `toml:"storage" default:"10G" unit:"bytes" min:"1Mi" mb:"storage_mb" is:"an amount as a string" hint:"write storage = \"10G\", or storage_mb = 10240" doc:"Storage of the environment, beyond its image, as a Kubernetes quantity."`
	WorkDir              string       `toml:"workdir" pattern:"^(/.*)?$" is:"an absolute path" hint:"write it like \"/app\"" doc:"Absolute path of the directory in which all scripts run; it must be in the image. Default: the image's."`
	Env                  env          `toml:"env" doc:"Variables of every process in the environment. ${NAME} and ${NAME:-default} stand for variables of the host, which the job has to pass: environment.pass_env."`
	Healthcheck          *Healthcheck `toml:"healthcheck" doc:"What must succeed before anything else is run in the environment. It means what Docker's HEALTHCHECK does."`
	Network              string       `toml:"network" enum:"public,none,allowlist" doc:"What the environment may reach: everything (default), nothing, or allowed_hosts by way of a proxy."`
	NetworkMode          networkMode  `toml:"network_mode" enum:"public,none,no-network,allowlist" doc:"Harbor's name for network."`
	AllowInternet        *bool        `toml:"allow_internet" doc:"Harbor's older key: false is network = \"none\"."`
	NetworkDuringInstall bool         `toml:"network_during_install" doc:"The network is public while the agent is installed."`
	NetworkDuringVerify  bool         `toml:"network_during_verify" doc:"The network is public while the verifier runs."`
	hostKeys
}

type artifactKeys struct {
	Source      string       `toml:"source" required:"true" pattern:"^/.*[^/].*$" is:"the absolute path of a file or directory" hint:"write it like \"/app/output\"" doc:"Absolute path in the environment."`
	Destination string       `toml:"destination" doc:"Path below the directory artifacts. Default: as source."`
	Exclude     []tarPattern `toml:"exclude" most:"100" is:"an array of strings" hint:"write exclude = [\"...\"]" doc:"Patterns of what is left out of a directory, as those of tar --exclude."`
	Service     service      `toml:"service" enum:",main" doc:"There is no other."`
}

type hostKeys struct {
	AllowedHosts []string `toml:"allowed_hosts" is:"a list of hosts" hint:"write allowed_hosts = [\"pypi.org\"]" doc:"What an allowlist lets through: names (pypi.org), all below a name (*.pypi.org), addresses, ranges of them (10.0.0.0/8); with a port, or 80 and 443."`
}

// Types of keys, whose schemas dialect has. Some decode their values themselves.
type (
	cpus       int64 // thousandths
	size       int64 // bytes, written as a quantity
	user       string
	tarPattern string
	service    string
	anyTable   map[string]any
	env        map[string]string
)

// dialect is how the keys of task.toml become a schema and are decoded.
var dialect = keys.Dialect{
	Types: map[reflect.Type]keys.Schema{
		reflect.TypeFor[looseText]():    {},
		reflect.TypeFor[looseTexts]():   {},
		reflect.TypeFor[looseAuthors](): {},
		reflect.TypeFor[cpus]():         {"type": []string{"string", "number"}},
		reflect.TypeFor[size]():         {"type": "string"},
		reflect.TypeFor[user]():         {"type": []string{"string", "integer"}, "minimum": 0},
		reflect.TypeFor[tarPattern]():   {"type": "string", "minLength": 1},
		reflect.TypeFor[networkMode]():  {}, // the enum says it all
		reflect.TypeFor[env]():          {"type": "object", "additionalProperties": keys.Schema{"type": "string"}},
	},
	Structs: map[reflect.Type]func(keys.Schema){
		reflect.TypeFor[artifactKeys](): func(s keys.Schema) { // or only its source
			table := maps.Clone(s)
			clear(s)
			s["anyOf"] = []keys.Schema{{"type": "string", "pattern": "^/.*[^/].*$"}, table}
		},
		reflect.TypeFor[environmentKeys](): func(s keys.Schema) {
			one := func(a, b string) keys.Schema { return keys.Schema{"not": keys.Schema{"required": []string{a, b}}} }
			s["allOf"] = []keys.Schema{one("memory", "memory_mb"), one("storage", "storage_mb")}
			megabytes := func(key, what string) {
				s["properties"].(keys.Schema)[key+"_mb"] = keys.Schema{
					"description": what + " of the environment in units of 2^20 bytes, instead of " + key + ".",
					"type":        "number", "minimum": 1, "multipleOf": 1,
				}
			}
			megabytes("memory", "Memory")
			megabytes("storage", "Storage")
		},
	},
	Default: keys.ScalarDefault,
	Words: keys.Words{
		Name: func(p keys.Path) string { return strconv.Quote(p.String()) },
		Text: "a string", List: "an array", Mapping: "a table",
		ListHint:    "write it in brackets",
		Example:     example,
		MappingHint: func(_ *keys.Node, p keys.Path, _ []keys.Rules) string { return "write [" + p.String() + "]" },
	},
}

// example returns how a key with a single value is written.
func example(r keys.Rules) string {
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

// Schema returns the JSON Schema (draft-07, as in the specification) of task.toml, for editors. Load refuses all that it
// refuses, except that a missing version is only a warning, and that tasks written for Harbor may give a size in both
// forms; Load also checks quantities.
func Schema() ([]byte, error) {
	root := dialect.Struct(reflect.TypeFor[file]())
	root["$schema"] = "http://json-schema.org/draft-07/schema#"
	root["title"] = "Rollout task"
	root["description"] = "The configuration of a task: task.toml. Keys that are not listed have no effect."
	root["anyOf"] = []keys.Schema{{"required": []string{"version"}}, {"required": []string{"schema_version"}}}
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the schema of task.toml: %w", err)
	}
	return append(out, '\n'), nil
}
