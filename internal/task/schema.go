package task

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"github.com/org/rollout-action/internal/keys"
)

// file has the keys of task.toml. Load reads them by methods of table instead, because what they mean depends on the task's
// format, on other keys and on the host.
type file struct {
	Version       string         `toml:"version" default:"1.0" doc:"Version of the task configuration format."`
	SchemaVersion string         `toml:"schema_version" doc:"Accepted in place of version, for tasks written for Harbor."`
	Source        string         `toml:"source" doc:"Where the task comes from."`
	Metadata      map[string]any `toml:"metadata" doc:"Whatever the author of the task wants to say."`
	Task          struct {
		Name        any `toml:"name" doc:"In Harbor's registry: org/name."`
		Version     any `toml:"version" doc:"The version of the task."`
		Description any `toml:"description" doc:"What the task is about."`
		Authors     any `toml:"authors" doc:"A list of {name, email}."`
		Keywords    any `toml:"keywords" doc:"A list of words to find the task by."`
	} `toml:"task" doc:"What the task is called in registries, and by whom it is. Changes nothing."`
	Verifier struct {
		Timeout timeoutKey     `toml:"timeout_sec" default:"600" doc:"Seconds that tests/test.sh may take."`
		User    userKey        `toml:"user" doc:"Who runs tests/test.sh: a name or a number. Default: the image's user."`
		Env     envKey         `toml:"env" doc:"Variables of tests/test.sh. ${NAME} and ${NAME:-default} stand for variables of the host, which the job has to pass: environment.pass_env."`
		Network networkModeKey `toml:"network_mode" doc:"As environment.network, while the verifier runs."`
		hostKeys
	} `toml:"verifier" doc:"How tests/test.sh runs."`
	Agent struct {
		InstallTimeout timeoutKey     `toml:"install_timeout_sec" default:"300" doc:"Seconds that the installation of the agent may take."`
		Timeout        timeoutKey     `toml:"timeout_sec" default:"600" doc:"Seconds that the agent may take. In tasks made for Harbor the default is a day."`
		User           userKey        `toml:"user" doc:"Who runs the agent (not its installation): a name or a number. Default: the image's user."`
		Network        networkModeKey `toml:"network_mode" doc:"As environment.network, while the agent works. Its install script has the environment's."`
		hostKeys
	} `toml:"agent" doc:"How the agent runs."`
	Environment environmentKeys `toml:"environment" doc:"What the trial runs in, and its limits."`
	Solution    struct {
		Env envKey `toml:"env" doc:"Further variables of solution/solve.sh. ${NAME} and ${NAME:-default} stand for variables of the host, which the job has to pass: environment.pass_env."`
	} `toml:"solution" doc:"How solution/solve.sh runs, for the agent oracle."`
	Artifacts []artifactKeys `toml:"artifacts" most:"100" doc:"Files and directories that are copied out of the environment when the agent is done, into the trial's directory artifacts."`
}

type environmentKeys struct {
	BuildTimeout         timeoutKey     `toml:"build_timeout_sec" default:"600" doc:"Seconds that building or pulling the image may take."`
	DockerImage          string         `toml:"docker_image" pattern:"^\\S*$" doc:"An image to use instead of building environment/Dockerfile. It is pulled unless it is there."`
	CPUs                 cpusKey        `toml:"cpus" default:"1" above:"0" doc:"CPUs of the environment: a number, or a Kubernetes quantity such as \"500m\"."`
	Memory               string         `toml:"memory" default:"2G" doc:"Memory of the environment as a Kubernetes quantity: 2G is 2*10^9 bytes, 2Gi is 2*2^30."`
	MemoryMB             megabytesKey   `toml:"memory_mb" doc:"Memory of the environment in units of 2^20 bytes, instead of memory."`
	Storage              string         `toml:"storage" default:"10G" doc:"Storage of the environment, beyond its image, as a Kubernetes quantity."`
	StorageMB            megabytesKey   `toml:"storage_mb" doc:"Storage of the environment in units of 2^20 bytes, instead of storage."`
	WorkDir              string         `toml:"workdir" pattern:"^(/.*)?$" doc:"Absolute path of the directory in which all scripts run; it must be in the image. Default: the image's."`
	Env                  envKey         `toml:"env" doc:"Variables of every process in the environment. ${NAME} and ${NAME:-default} stand for variables of the host, which the job has to pass: environment.pass_env."`
	Healthcheck          healthKeys     `toml:"healthcheck" doc:"What must succeed before anything else is run in the environment. It means what Docker's HEALTHCHECK does."`
	Network              string         `toml:"network" enum:"public,none,allowlist" doc:"What the environment may reach: everything (default), nothing, or allowed_hosts by way of a proxy."`
	NetworkMode          networkModeKey `toml:"network_mode" doc:"Harbor's name for network."`
	AllowInternet        bool           `toml:"allow_internet" doc:"Harbor's older key: false is network = \"none\"."`
	NetworkDuringInstall bool           `toml:"network_during_install" doc:"The network is public while the agent is installed."`
	NetworkDuringVerify  bool           `toml:"network_during_verify" doc:"The network is public while the verifier runs."`
	hostKeys
}

type healthKeys struct {
	Command       string      `toml:"command" required:"true" pattern:"\\S" doc:"For bash. Exit code 0 is healthy."`
	Interval      intervalKey `toml:"interval_sec" default:"5" doc:"Seconds between checks."`
	Timeout       timeoutKey  `toml:"timeout_sec" default:"30" doc:"Seconds that a check may take."`
	StartPeriod   intervalKey `toml:"start_period_sec" default:"0" doc:"Seconds in which failures do not count."`
	StartInterval intervalKey `toml:"start_interval_sec" default:"5" doc:"Seconds between checks in that time."`
	Retries       int         `toml:"retries" default:"3" min:"1" max:"10000" doc:"Failures in a row after which the environment is given up."`
}

type artifactKeys struct {
	Source      string       `toml:"source" required:"true" pattern:"^/.*[^/].*$" doc:"Absolute path in the environment."`
	Destination string       `toml:"destination" doc:"Path below the directory artifacts. Default: as source."`
	Exclude     []patternKey `toml:"exclude" most:"100" doc:"Patterns of what is left out of a directory, as those of tar --exclude."`
	Service     string       `toml:"service" enum:",main" doc:"There is no other."`
}

type hostKeys struct {
	AllowedHosts []string `toml:"allowed_hosts" doc:"What an allowlist lets through: names (pypi.org), all below a name (*.pypi.org), addresses, ranges of them (10.0.0.0/8); with a port, or 80 and 443."`
}

// Types of keys, whose schemas dialect has.
type (
	timeoutKey     float64
	intervalKey    float64
	megabytesKey   float64
	cpusKey        string
	userKey        string
	patternKey     string
	networkModeKey string
	envKey         map[string]string
)

var dialect = keys.Dialect{
	Types: map[reflect.Type]keys.Schema{
		reflect.TypeFor[any]():            {},
		reflect.TypeFor[timeoutKey]():     {"type": "number", "minimum": minTimeoutSec, "maximum": maxTimeoutSec},
		reflect.TypeFor[intervalKey]():    {"type": "number", "minimum": 0, "maximum": maxIntervalSec},
		reflect.TypeFor[megabytesKey]():   {"type": "number", "minimum": 1, "multipleOf": 1},
		reflect.TypeFor[cpusKey]():        {"type": []string{"string", "number"}},
		reflect.TypeFor[userKey]():        {"type": []string{"string", "integer"}, "minimum": 0},
		reflect.TypeFor[patternKey]():     {"type": "string", "minLength": 1},
		reflect.TypeFor[networkModeKey](): {"enum": []string{"public", "none", "no-network", "allowlist"}},
		reflect.TypeFor[envKey]():         {"type": "object", "additionalProperties": keys.Schema{"type": "string"}},
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
		},
	},
	Default: func(r keys.Rules) *keys.Node {
		n := &keys.Node{Kind: keys.Text, Text: r.Default}
		if kind := r.Type.Kind(); kind == reflect.Float64 || kind == reflect.Int {
			n.Kind = keys.Float
		}
		return n
	},
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

// knownKeys returns the keys of a table that Load reads. section is its path; "" is the root, and "artifacts" is an entry of
// that list.
func knownKeys(section string) []string {
	if section == "artifacts" {
		return keys.Names(keys.Of(reflect.TypeFor[artifactKeys]()))
	}
	t := reflect.TypeFor[file]()
	for part := range strings.SplitSeq(section, ".") {
		for _, r := range keys.Of(t) {
			if r.Key == part {
				t = r.Type
			}
		}
	}
	return keys.Names(keys.Of(t))
}
