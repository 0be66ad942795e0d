package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/agent/presets"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/fields"
)

// presetCheck checks one agent's keys about its preset. The preset is empty if the agent has none
// that is known.
type presetCheck struct {
	*checker
	agent  *agent.Agent
	at     fields.Path
	preset presets.Preset
}

// apply adds the scripts, files and variables of the agent's preset. The agent's own values win, as
// in the config.json of a job, where all is written down.
func (c presetCheck) apply() {
	a, p := c.agent, c.at
	if c.Bad(p.Child("preset")) {
		return
	}
	if a.Preset == "" {
		for _, one := range []struct {
			key string
			set bool
		}{{"version", a.Version != ""}, {"args", len(a.Args) > 0}, {"mcp_servers", len(a.MCPServers) > 0}, {"skills", a.Skills != ""}} {
			if one.set {
				c.Problem(p.Child(one.key), "add preset:, or remove it", "agent %q has %s, which only presets have", fields.Shorten(a.Name), one.key)
			}
		}
		return
	}
	var ok bool
	c.preset, ok = presets.Get(a.Preset)
	switch {
	case a.Reserved():
		c.Problem(p.Child("preset"), "remove it, or rename the agent", "agent %q is built in and takes no preset", a.Name)
		return
	case !ok:
		names := presets.Names()
		c.Problem(p.Child("preset"), cmp.Or(diag.DidYouMean(a.Preset, names), "rollout agents ls has their names"), "there is no preset %q", fields.Shorten(a.Preset))
		return
	case a.Preset == presets.Shell:
		c.shell()
		a.Version = cmp.Or(a.Version, c.preset.Version) // so that config.json tells which loop it was
	}
	a.Install = cmp.Or(a.Install, c.preset.Install(a.Version))
	a.Execute = cmp.Or(a.Execute, c.preset.Execute(a.Args))
	c.skills()
	c.servers()
	c.key()
}

// shell checks an agent with the preset of Rollout's own loop.
func (c presetCheck) shell() {
	a, known, p := c.agent, c.preset, c.at
	for _, one := range []struct {
		key string
		set bool
	}{{"execute", a.Execute != ""}, {"args", len(a.Args) > 0}} {
		if one.set {
			c.Problem(p.Child(one.key), "remove it", "the preset %s is a loop of Rollout itself, which takes no %s", presets.Shell, one.key)
		}
	}
	if a.Version != "" && a.Version != known.Version {
		c.Problem(p.Child("version"), fmt.Sprintf("write %q, or remove it", known.Version), "this Rollout has version %s of the preset %s", known.Version, presets.Shell)
	}
}

// skills puts the agent's skills into its environment.
func (c presetCheck) skills() {
	a := c.agent
	if a.Skills == "" {
		return
	}
	if c.preset.Skills == "" {
		c.Problem(c.at.Child("skills"), "remove it", "the preset %s takes no skills", a.Preset)
		return
	}
	file := agent.File{Source: a.Skills, Target: presets.SkillsDir, Gitignore: true}
	if !slices.Contains(a.Files, file) { // it is there already when config.json is loaded
		a.Files = append(a.Files, file)
	}
}

// servers puts the agent's MCP servers into its variables.
func (c presetCheck) servers() {
	a, p := c.agent, c.at.Child("mcp_servers")
	switch {
	case len(a.MCPServers) == 0 || c.BadBelow(p):
		return
	case !c.preset.MCP:
		c.Problem(p, "remove them", "the preset %s takes no MCP servers", a.Preset)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(a.MCPServers)) {
		if err := a.MCPServers[name].Check(); err != nil {
			c.Problem(p.Child(name), "give a command, or a url", "MCP server %q: %v", fields.Shorten(name), err)
		}
	}
	text, err := json.Marshal(a.MCPServers.Standard())
	if err != nil {
		panic(err) // texts only
	}
	a.Env = maps.Clone(a.Env)
	if a.Env == nil {
		a.Env = map[string]string{}
	}
	a.Env[presets.MCPVar] = string(text)
}

// key checks that the agent can reach a model: one of the job, or its own with a key.
func (c presetCheck) key() {
	a, known, p := c.agent, c.preset, c.at
	m, hasModel := c.out.Job.Models[a.Model]
	switch {
	case p[0] == "judge_agents": // whose models are those of judges
	case a.Model == "" && a.Preset == presets.Shell:
		c.Problem(p.Child("preset"), "add model: and models:", "agent %q is Rollout's own loop, which needs a model", fields.Shorten(a.Name))
	case a.Model == "" && len(known.Keys) > 0:
		for _, name := range known.Keys {
			if _, set := a.Env[name]; set {
				return
			}
		}
		if c.opts.Recorded {
			return
		}
		hint := fmt.Sprintf("add env: {%s: ${%s}}", known.Keys[0], known.Keys[0])
		if len(known.APIs) > 0 {
			hint = fmt.Sprintf("add model: and models:, with the api %s; or %s", strings.Join(known.APIs, ", "), hint)
		}
		c.Warn(c.Root.Locate(p, false), hint, "agent %q has neither a model nor one of the variables %s", fields.Shorten(a.Name), strings.Join(known.Keys, ", "))
	case len(known.APIs) == 0: // whether there is such a model or not
		c.Problem(p.Child("model"), "remove model: and budget:, and give it its key in env", "the preset %s cannot use a model of the job: %s", a.Preset, known.NoGateway)
	case !hasModel || m.API == APIScripted:
	case !known.Speaks(m.API):
		c.Problem(p.Child("model"), "choose a model with one of these APIs, or another preset",
			"agent %q speaks %s (preset %s), but the model %q speaks %s; Rollout does not translate", fields.Shorten(a.Name), strings.Join(known.APIs, ", "), a.Preset, a.Model, m.API)
	}
}

// jsonGetenv returns getenv for placeholders in strings of JSON: quotes and line ends of a value
// stay within its string.
func jsonGetenv(getenv func(string) (string, bool)) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, set := getenv(name)
		text, err := json.Marshal(value)
		if err != nil {
			panic(err) // a text
		}
		return string(text[1 : len(text)-1]), set
	}
}
