package task

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/diag"
)

// leaveOut is the hint for tasks that cannot run.
const leaveOut = "leave the task out: exclude_tasks in the job"

// unsupported are keys of Harbor's task.toml that change the meaning of a trial and that Rollout does not support: a task that
// sets one is invalid. The text is the reason. Source: Harbor 0.22, src/harbor/models/task/config.py.
var unsupported = map[string]string{
	"steps":                     "a task is one instruction and one verifier",
	"verifier.environment_mode": "the verifier shares the agent's environment",
	"verifier.environment":      "the verifier shares the agent's environment",
	"verifier.collect":          "nothing runs between the agent and the verifier",
	"environment.os":            "environments run Linux",
	"environment.gpus":          "environments have no GPU",
	"environment.gpu_types":     "environments have no GPU",
	"environment.tpu":           "environments have no TPU",
	"environment.mcp_servers":   "agents are scripts, which do not take MCP servers",
	"environment.skills_dir":    "agents are scripts, which do not take skills",
}

// noEffect are keys of Harbor's task.toml that Rollout ignores, because the trial means the same without them: a task that
// sets one gets a warning. The text is what happens instead.
var noEffect = map[string]string{
	"multi_step_reward_strategy": "there are no steps, so there is one reward",
}

// neutral are values of the keys above that ask for what happens anyway. Empty values (0, false, "", [] and empty tables) are
// neutral, too.
var neutral = map[string]any{
	"verifier.environment_mode": "shared",
}

// maxUnknown is how many unknown keys of a table are reported.
const maxUnknown = 10

// checkKeys reports keys that are not supported, and warns of keys that have no effect or are unknown.
func (t table) checkKeys() { t.checkKeysOf(strings.Join(t.path, ".")) }

// checkKeysOf is checkKeys for a table like section.
func (t table) checkKeysOf(section string) {
	known := knownKeys(section)
	var unknown []string
	for _, key := range slices.Sorted(maps.Keys(t.values)) {
		name := t.name(key)
		instead, ineffective := noEffect[name]
		why, refused := unsupported[name]
		switch {
		case slices.Contains(known, key):
		case refused && !t.asksForNothing(key):
			t.problem(key, fmt.Sprintf("%q is not supported: %s", name, why), leaveOut)
		case ineffective && !t.asksForNothing(key):
			t.warning(key, fmt.Sprintf("%q has no effect yet", name), instead)
		case !refused && !ineffective:
			unknown = append(unknown, key)
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

// asksForNothing reports whether the key's value asks for what happens anyway.
func (t table) asksForNothing(key string) bool {
	switch name := t.name(key); name {
	case "verifier.environment":
		return false // even an empty table asks for another environment
	case "environment.gpu_types":
		return t.values["gpus"] == int64(0) || isNeutral(name, t.values[key])
	case "environment.os":
		text, _ := t.values[key].(string)
		return strings.EqualFold(text, "linux")
	default:
		return isNeutral(name, t.values[key])
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
