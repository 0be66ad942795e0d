package task

import (
	"fmt"
	"maps"
	"slices"

	"github.com/org/rollout-action/internal/diag"
)

// knownKeys are the keys of each table that Load reads; "" is the root. In the root, task, which
// only describes (Harbor's names, authors and keywords), is accepted too.
var knownKeys = map[string][]string{
	"":            {"version", "schema_version", "source", "metadata", "task", "verifier", "agent", "environment"},
	"verifier":    {"timeout_sec"},
	"agent":       {"install_timeout_sec", "timeout_sec"},
	"environment": {"build_timeout_sec", "docker_image", "cpus", "memory", "memory_mb", "storage", "storage_mb"},
}

// noEffect are keys of Harbor's task.toml that change what a trial means and that Rollout does not
// act on: a task that sets one is told so. The text is what happens instead.
// Source: Harbor 0.22, src/harbor/models/task/config.py.
var noEffect = map[string]string{
	"steps":                      "only the instruction and tests of the task's folder are used",
	"multi_step_reward_strategy": "there are no steps, so there is one reward",
	"artifacts":                  "only /logs is copied out of the environment",
	"solution":                   "the solution runs with the agent's environment variables only",
	"verifier.env":               "the verifier does not get these variables",
	"verifier.user":              "the verifier runs as the image's user",
	"verifier.environment_mode":  "the verifier shares the agent's environment",
	"verifier.environment":       "the verifier shares the agent's environment",
	"verifier.collect":           "nothing is collected before the verifier runs",
	"verifier.network_mode":      "the verifier has the environment's network",
	"verifier.allowed_hosts":     "the verifier has the environment's network",
	"agent.user":                 "the agent runs as the image's user",
	"agent.network_mode":         "the agent has the environment's network",
	"agent.allowed_hosts":        "the agent has the environment's network",
	"environment.os":             "the environment runs Linux",
	"environment.gpus":           "the environment has no GPU",
	"environment.gpu_types":      "the environment has no GPU",
	"environment.tpu":            "the environment has no TPU",
	"environment.mcp_servers":    "the agent is not told of MCP servers",
	"environment.env":            "set the variables in the image",
	"environment.skills_dir":     "the agent is not told of skills",
	"environment.healthcheck":    "the agent starts as soon as the environment does",
	"environment.workdir":        "scripts run in the image's working directory",
	"environment.network_mode":   "the environment has the provider's network",
	"environment.allowed_hosts":  "the environment has the provider's network",
	"environment.allow_internet": "the environment has the provider's network",
}

// neutral are values of the keys above that ask for what happens anyway, besides nothing at all
// (0, false, "", [] or an empty table).
var neutral = map[string]any{
	"environment.allow_internet": true,
	"environment.os":             "linux",
	"environment.network_mode":   "public",
	"agent.network_mode":         "public",
	"verifier.network_mode":      "public",
	"verifier.environment_mode":  "shared",
}

// maxUnknown keeps a table of odd keys from flooding the output.
const maxUnknown = 10

// checkKeys warns of keys that have no effect, because they are not supported or not known.
func (t table) checkKeys() {
	var section string
	if len(t.path) > 0 {
		section = t.path[0]
	}
	known := knownKeys[section]
	var unknown []string
	for _, key := range slices.Sorted(maps.Keys(t.values)) {
		name := t.name(key)
		instead, unsupported := noEffect[name]
		switch {
		case slices.Contains(known, key):
		case !unsupported:
			unknown = append(unknown, key)
		case !isNeutral(name, t.values[key]):
			t.warning(key, fmt.Sprintf("%q has no effect yet", name), instead)
		}
	}
	for i, key := range unknown {
		if i == maxUnknown {
			t.warning(key, fmt.Sprintf("%d more unknown keys have no effect", len(unknown)-i), "")
			return
		}
		t.warning(key, fmt.Sprintf("unknown key %q has no effect", t.name(key)), diag.DidYouMean(key, known))
	}
}

// isNeutral reports whether v asks for what happens anyway.
func isNeutral(name string, v any) bool {
	if want, ok := neutral[name]; ok {
		return v == want
	}
	switch v := v.(type) {
	case string:
		return v == ""
	case int64:
		return v == 0
	case float64:
		return v == 0
	case bool:
		return !v
	case []any:
		return len(v) == 0
	case map[string]any:
		for _, value := range v {
			if !isNeutral("", value) {
				return false
			}
		}
		return true
	}
	return false
}
