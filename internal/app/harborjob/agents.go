package harborjob

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/agent/presets"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api"
)

// presetOf are the agents of Harbor whose presets have other names.
// Source: Harbor 0.26, src/harbor/models/agent/name.py.
var presetOf = map[string]string{
	"cline-cli": "cline", "cursor-cli": "cursor-agent", "antigravity-cli": "antigravity", "grok-build": "grok",
	"openhands-sdk": "openhands", "qwen-coder": "qwen-code", "vibe": "mistral-vibe",
}

// standIns are agents of Harbor that Rollout does not have, with the preset that comes next.
var standIns = map[string]string{"terminus": "shell", "terminus-1": "shell", "terminus-2": "shell", "kimi-cli": "kimi-code"}

// service returns the provider that a model's name begins with, and the API by which a preset asks
// it; known: there is such a provider, but the preset may not speak its API.
func service(p presets.Preset, prefix string) (found model.Service, name string, known bool) {
	for _, protocol := range api.All {
		facts := protocol.Facts()
		at := slices.IndexFunc(facts.Services, func(s model.Service) bool { return s.Prefix == prefix })
		if at < 0 {
			continue
		}
		known = true
		rank := slices.Index(p.APIs, string(facts.Name)) // the preset's first one is its own
		if rank >= 0 && (name == "" || rank < slices.Index(p.APIs, name)) {
			found, name = facts.Services[at], string(facts.Name)
		}
	}
	return found, name, known
}

// agents carries the agents over. Without any, Harbor runs the oracle.
func (c *conversion) agents(t table) {
	items := t.items("agents")
	if len(items) == 0 {
		c.out.add("agents", list(mapping().set("name", agent.Oracle)))
		return
	}
	all, taken := list(), names{}
	for i, item := range items {
		a := tableOf(t.notes, fmt.Sprintf("agents[%d].", i), item)
		if converted := c.agent(a, taken); converted != nil {
			all.Content = append(all.Content, converted.Node)
		}
	}
	c.out.add("agents", all)
}

// agent carries one agent over; nil if there is none like it.
func (c *conversion) agent(a table, taken names) *node {
	name, named := a.scalar("name")
	if path, ok := a.scalar("import_path"); ok {
		a.note("import_path", "%s is a class of Python: write install and execute for it, see docs/agents.md", path)
		return nil
	}
	if !named {
		name = agent.Oracle
	}
	out := mapping()
	if name == agent.Oracle || name == agent.Nop {
		if taken.has(name) { // it has no other name
			a.note("name", "there is one %s already: n_attempts repeats trials", name)
			return nil
		}
		taken.take(name)
		out.set("name", name)
		a.drop("model_name", name+" asks no model")
		c.restOfAgent(a)
		return out
	}
	preset := name
	if own, ok := presetOf[name]; ok {
		preset = own
	}
	if next, ok := standIns[name]; ok {
		a.note("name", "there is no %s: %s stands in for it, so numbers are not comparable", name, next)
		preset = next
	}
	p, ok := presets.Get(preset)
	if !ok {
		a.note("name", "there is no preset for %s: write install and execute for it, see docs/agents.md", name)
		return nil
	}
	out.set("name", taken.unique(preset)).set("preset", preset)
	kwargs := a.table("kwargs")
	if version, ok := kwargs.scalar("version"); ok {
		out.set("version", version)
	}
	env := a.take("env")
	key := "" // the variable of the model's key, which stays on the host
	if model, ok := a.scalar("model_name"); ok {
		base, _ := a.scalar("base_url")
		if base == "" {
			base, _ = kwargs.scalar("api_base")
		}
		key = c.model(a, out, p, model, base, environmentOf(env))
	}
	if turns, ok := kwargs.scalar("max_turns"); ok {
		out.add("budget", mapping().number("max_turns", turns).Node)
	}
	c.mcpServers(a, out)
	c.skills(a, out)
	if variables := environmentOf(env).without(key); len(variables.Content) > 0 {
		out.add("env", variables.Node)
	}
	kwargs.dropAll("is an argument of Harbor's class; args: has those of the agent's command")
	c.restOfAgent(a)
	return out
}

// restOfAgent notes what no agent has here.
func (c *conversion) restOfAgent(a table) {
	for _, key := range []string{"override_timeout_sec", "max_timeout_sec", "override_setup_timeout_sec"} {
		a.drop(key, "the task says how long an agent may work; timeout_multiplier changes all of them")
	}
	a.drop("n_concurrent", "n_concurrent_trials is for all agents; models.NAME.max_concurrent limits requests")
	a.drop("concurrency_group", "n_concurrent_trials is for all agents")
	a.drop("extra_allowed_hosts", "environment.allowed_hosts is for all agents")
	a.dropAs("skip_model_parsing", "false", "models: says it")
	a.end()
}

// model carries a model over, as an entry of models that the agent asks through the gateway. It
// returns the variable that has the key; "" if the agent asks its model itself.
func (c *conversion) model(a table, out *node, p presets.Preset, full, base string, env *node) string {
	if p.NoGateway != "" {
		a.note("model_name", "%s is not set, because the agent chooses its model itself: %s", full, p.NoGateway)
		return ""
	}
	provider, name, _ := strings.Cut(full, "/")
	s, protocol, known := service(p, provider)
	if !known || name == "" {
		a.note("model_name", "Rollout does not know the URL of %s: write it into models, see docs/models.md", full)
		return ""
	}
	if protocol == "" {
		a.note("model_name", "%s: the preset %s speaks %s, and %s does not", full, p.Name, strings.Join(p.APIs, ", "), provider)
		return ""
	}
	key := "${" + s.Key + "}"
	switch given := env.get(s.Key); {
	case strings.HasPrefix(given, "${"): // it may have another name on the host
		key = given
	case given != "":
		a.note("env", "the value of %s stays out of the file: export it", s.Key)
	}
	entry := mapping().set("api", protocol).set("model", name)
	if base = cmp.Or(base, s.BaseURL); base != "" {
		entry.set("base_url", base)
	}
	entry.set("api_key", key)
	out.set("model", c.addModel(name, entry))
	return s.Key
}

// addModel adds an entry to models, or finds an equal one, and returns its name.
func (c *conversion) addModel(model string, entry *node) string {
	base := model[strings.LastIndexByte(model, '/')+1:]
	text := entry.String()
	for n := 1; ; n++ {
		name := base
		if n > 1 {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		switch there, ok := c.models[name]; {
		case !ok:
			c.models[name] = text
			c.out.sub("models").add(name, entry.Node)
			return name
		case there == text:
			return name
		}
	}
}

// mcpServers carries MCP servers over.
func (c *conversion) mcpServers(a table, out *node) {
	servers := mapping()
	for i, item := range a.items("mcp_servers") {
		s := tableOf(a.notes, fmt.Sprintf("%smcp_servers[%d].", a.path, i), item)
		name, ok := s.scalar("name")
		if !ok {
			a.note("mcp_servers", "a server has no name")
			continue
		}
		server := mapping()
		for _, key := range []string{"command", "url", "transport"} {
			if value, ok := s.scalar(key); ok {
				if value == "streamable-http" {
					value = "http"
				}
				server.set(key, value)
			}
		}
		if args := s.items("args"); len(args) > 0 {
			server.add("args", texts(args))
		}
		if env := environmentOf(s.take("env")); len(env.Content) > 0 {
			server.add("env", env.Node)
		}
		s.end()
		servers.add(name, server.Node)
	}
	if len(servers.Content) > 0 {
		out.add("mcp_servers", servers.Node)
	}
}

// skills carries one local directory of skills over.
func (c *conversion) skills(a table, out *node) {
	items := a.items("skills")
	if len(items) == 1 && !strings.Contains(items[0].Value, "://") && !strings.Contains(items[0].Value, "@") {
		out.set("skills", c.path(items[0].Value))
		return
	}
	if len(items) > 0 {
		a.note("skills", "an agent has one directory of skills: put them into one, and name it")
	}
}

// names knows the names that are taken, by the slug in which they have to differ: the first number
// that may be free after each.
type names map[string]int

func (n names) has(name string) bool { return n[result.Slug(name)] > 0 }

func (n names) take(name string) { n[result.Slug(name)] = 2 }

// unique returns name, or name with a number after it that makes it differ from those taken, and
// takes it.
func (n names) unique(name string) string {
	free := name
	for number := n[result.Slug(name)]; n.has(free); number++ {
		free = fmt.Sprintf("%s-%d", name, number)
		n[result.Slug(name)] = number + 1
	}
	n.take(free)
	return free
}
