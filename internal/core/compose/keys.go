package compose

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/org/rollout-action/internal/lib/aliases"
)

// Keys of a service. Those in ignored have no meaning here: ports are never published, and the
// containers' names, logs and order of removal are Rollout's.
var (
	topKeys     = []string{"name", "services", "networks", "volumes", "version"}
	serviceKeys = []string{
		"build", "cap_add", "cap_drop", "command", "container_name", "cpus", "depends_on", "deploy", "entrypoint", "environment", "env_file",
		"extra_hosts", "healthcheck", "hostname", "image", "init", "mem_limit", "network_mode", "networks", "pids_limit", "platform", "privileged", "profiles",
		"read_only", "restart", "scale", "security_opt", "shm_size", "stop_signal", "tmpfs", "tty", "user", "volumes", "working_dir",
	}
	ignored = []string{
		"annotations", "attach", "domainname", "expose", "labels", "logging", "mem_reservation", "mem_swappiness", "memswap_limit", "cpu_count", "cpu_percent",
		"cpu_shares", "oom_score_adj", "ports", "pull_policy", "stdin_open", "stop_grace_period", "ulimits",
	}
	buildKeys   = []string{"context", "dockerfile", "args", "target", "platforms", "pull", "no_cache", "labels", "tags", "cache_from", "cache_to"}
	networkKeys = []string{"name", "driver", "internal", "labels", "attachable"}
	volumeKeys  = []string{"name", "driver", "labels"}
)

// reasons say why keys are refused that would give a container power over the machine, or that
// bring in files and containers of others.
var reasons = map[string]string{
	"privileged":          "a privileged container controls the whole machine",
	"pid":                 "processes of other containers, or of the machine, must not be seen",
	"ipc":                 "memory of other containers, or of the machine, must not be shared",
	"uts":                 "the machine's name must not be shared",
	"userns_mode":         "it ends the separation of users from those of the machine",
	"cgroup":              "the machine's control groups must not be seen",
	"cgroup_parent":       "it leaves the limits of the trial",
	"devices":             "devices of the machine are not for tasks",
	"device_cgroup_rules": "devices of the machine are not for tasks",
	"gpus":                "devices of the machine are not for tasks",
	"sysctls":             "settings of the kernel are not for tasks",
	"runtime":             "the job chooses it: environment.provider_config.runtime",
	"volumes_from":        "name the volume in both services",
	"external_links":      "containers of others must not be reached",
	"extends":             "write the service out",
	"include":             "write the services out",
	"secrets":             "use environment, or a file of the task in volumes",
	"configs":             "use a file of the task in volumes",
	"use_api_socket":      "the engine's socket controls the whole machine",
	"external":            "what exists outside of the trial is not the task's",
	"driver_opts":         "they can name files of the machine",
	"ipam":                "two trials could not have the same addresses: use the names of services",
	"additional_contexts": "only context is read",
	"dockerfile_inline":   "put it into a file",
	"ssh":                 "keys of the machine are not for tasks",
	"network":             "the build has the network of all builds",
	"privileged build":    "a privileged build controls the whole machine",
}

// checker finds keys of a file that cannot be honoured.
type checker struct{ problems []Problem }

func (c *checker) refuse(at *yaml.Node, hint, format string, args ...any) {
	c.problems = append(c.problems, Problem{Line: at.Line, Column: at.Column, Message: fmt.Sprintf(format, args...), Hint: hint})
}

// document checks the keys of the file, and returns its mapping; nil: it has none.
func (c *checker) document(text []byte) *yaml.Node {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		c.problems = append(c.problems, Problem{Message: "is not valid YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")})
		return nil
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		c.problems = append(c.problems, Problem{Message: "is not a mapping with the key services"})
		return nil
	}
	root := doc.Content[0]
	c.tags(root)
	if bad, _ := aliases.Inline(root, maxDepth, maxNodes); bad != nil {
		c.problems = append(c.problems, Problem{Message: "is too large, or nested too deeply, with its aliases written out"})
		return nil
	}
	c.keys(root, "", topKeys)
	for _, part := range []struct {
		name string
		keys []string
	}{{"services", append(slices.Clone(serviceKeys), ignored...)}, {"networks", networkKeys}, {"volumes", volumeKeys}} {
		for name, value := range pairs(child(root, part.name)) {
			c.keys(value, part.name+"."+name.Value+".", part.keys)
			if part.name == "services" {
				c.keys(child(value, "build"), "services."+name.Value+".build.", buildKeys)
			}
		}
	}
	return root
}

// withoutVersion returns the text without the key version, which is obsolete: the library would
// print a warning.
func withoutVersion(text []byte, root *yaml.Node) []byte {
	if root.Style&yaml.FlowStyle != 0 {
		return text
	}
	lines := bytes.Split(text, []byte("\n"))
	for i := 0; i+1 < len(root.Content); i += 2 {
		if key := root.Content[i]; key.Value == "version" && key.Line == root.Content[i+1].Line && key.Line <= len(lines) {
			lines[key.Line-1] = nil
		}
	}
	return bytes.Join(lines, []byte("\n"))
}

// Bounds of the file with its aliases written out.
const (
	maxDepth = 50
	maxNodes = 100_000
)

// tags refuses the tags of merges between files.
func (c *checker) tags(n *yaml.Node) {
	if strings.HasPrefix(n.Tag, "!") && !strings.HasPrefix(n.Tag, "!!") {
		c.refuse(n, "write the value out", "the tag %s is not supported", n.Tag)
	}
	for _, inner := range n.Content {
		c.tags(inner)
	}
}

// keys refuses the keys of a mapping that are not known.
func (c *checker) keys(n *yaml.Node, at string, known []string) {
	for key := range pairs(n) {
		if !slices.Contains(known, key.Value) && !strings.HasPrefix(key.Value, "x-") {
			reason := reasons[key.Value]
			c.refuse(key, reason, "%q is not supported", shorten(at+key.Value))
		}
	}
}

// pairs yields the keys and values of a mapping, with those that it merges in.
func pairs(n *yaml.Node) func(yield func(key, value *yaml.Node) bool) {
	return func(yield func(key, value *yaml.Node) bool) { walkPairs(n, yield) }
}

func walkPairs(n *yaml.Node, yield func(key, value *yaml.Node) bool) bool {
	if n == nil || n.Kind != yaml.MappingNode {
		return true
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Value == "<<" && (key.Tag == "!!merge" || key.Tag == "") {
			sources := []*yaml.Node{value}
			if value.Kind == yaml.SequenceNode {
				sources = value.Content
			}
			for _, source := range sources {
				if !walkPairs(source, yield) {
					return false
				}
			}
			continue
		}
		if !yield(key, value) {
			return false
		}
	}
	return true
}

// child returns the value of a key, or nil.
func child(n *yaml.Node, name string) *yaml.Node {
	var found *yaml.Node
	for key, value := range pairs(n) {
		if key.Value == name {
			found = value
		}
	}
	return found
}

// locate returns the node at a path, or the last one above it.
func locate(root *yaml.Node, path ...string) *yaml.Node {
	at := root
	for _, name := range path {
		var n *yaml.Node
		for key, value := range pairs(root) {
			if key.Value == name {
				at, n = key, value
			}
		}
		if n == nil {
			break
		}
		root = n
	}
	return at
}

// shorten bounds text of the file for a message.
func shorten(text string) string {
	const most = 120
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
