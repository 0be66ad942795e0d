package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/agent/presets"
	"github.com/org/rollout-action/internal/core/judge"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/fields"
	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api"
	"github.com/org/rollout-action/internal/model/gateway"
	"github.com/org/rollout-action/internal/model/prices"
	"github.com/org/rollout-action/internal/model/scripted"
)

// APIScripted is the api of a model whose answers come from a script, in all protocols.
const APIScripted = string(model.Scripted)

// Model is a model that agents can use. Values of APIKey and Headers keep their ${VAR}
// placeholders.
type Model struct {
	API           string         `yaml:"api" json:"api" required:"true" doc:"The protocol of the model's provider, which the agent must speak, too. scripted: the model answers by script, in all protocols."`
	Model         string         `yaml:"model" json:"model,omitempty" doc:"The provider's name of the model. Rollout sends it in place of the name that the agent asks for. Default: the name in models."`
	BaseURL       string         `yaml:"base_url" json:"base_url,omitempty" doc:"URL of the provider. Default: that of the API's author."`
	APIKey        string         `yaml:"api_key" json:"api_key,omitempty" raw:"true" doc:"The key, such as ${ANTHROPIC_API_KEY}. It stays on the host."`
	Headers       Headers        `yaml:"headers" json:"headers,omitempty" doc:"Headers of each request to the provider, for example of a company's own proxy. ${VAR} works as in an agent's env."`
	Sampling      map[string]any `yaml:"sampling" json:"sampling,omitempty" doc:"Parameters such as temperature that replace the agent's in each request."`
	Price         *Price         `yaml:"price" json:"price,omitempty" experiment:"resume" doc:"Prices in US dollars per million tokens. Default: those of the table that Rollout has for well-known providers."`
	MaxConcurrent int            `yaml:"max_concurrent" json:"max_concurrent,omitempty" min:"1" max:"100000" experiment:"resume" doc:"Requests to the model at one time, of all trials. Default: no bound."`
	Record        string         `yaml:"record" json:"record,omitempty" enum:"messages,usage,none" doc:"The parts of their model calls that trials keep. messages: the trajectory, with the conversations. usage: tokens, times and names of models, without any contents. none: tokens and costs alone, in costs.jsonl. The usage in the results does not depend on it. Default: messages."`
	RecordTokens  bool           `yaml:"record_tokens" json:"record_tokens,omitempty" doc:"Ask the model's server for the ids of tokens and their log probabilities, and keep them for training. Only with the api openai-chat, of servers that can, such as vLLM and SGLang."`
	Script        string         `yaml:"script" json:"script,omitempty" experiment:"resume" doc:"The file by which a model with the api scripted answers, relative to the job file."`
	RecordTo      string         `yaml:"record_to" json:"record_to,omitempty" experiment:"no" doc:"Directory in which each exchange with the model is kept, for replay; relative to the job file."`
	Replay        string         `yaml:"replay" json:"replay,omitempty" doc:"Directory with exchanges of record_to, from which the model answers; relative to the job file. It then needs no key and no network."`
}

// ValuesOf implements fields.Enumerated: config may import package model, so the names of the APIs
// come from their table.
func (Model) ValuesOf(key string) []string {
	if key != "api" {
		return nil
	}
	var out []string
	for _, name := range api.Names() {
		out = append(out, string(name))
	}
	return append(out, APIScripted)
}

// Headers are headers of HTTP by name.
type Headers map[string]string

// Price holds a model's prices in US dollars per million tokens. A price that is nil defaults to
// that of the input.
type Price struct {
	Input      float64  `yaml:"input" json:"input" required:"true" min:"0" max:"1000000" doc:"Of the input."`
	Output     float64  `yaml:"output" json:"output" required:"true" min:"0" max:"1000000" doc:"Of the output, with reasoning."`
	CacheRead  *float64 `yaml:"cache_read" json:"cache_read,omitempty" min:"0" max:"1000000" doc:"Of input that was read from a cache. Default: that of the input."`
	CacheWrite *float64 `yaml:"cache_write" json:"cache_write,omitempty" min:"0" max:"1000000" doc:"Of input that was written to a cache. Default: that of the input."`
	// CacheWriteHour's default is that of Anthropic, which alone has such caches.
	CacheWriteHour *float64 `yaml:"cache_write_1h" json:"cache_write_1h,omitempty" min:"0" max:"1000000" doc:"Of input that was written to a cache that is kept for an hour. Default: twice that of the input."`
	WebSearch      *float64 `yaml:"web_search" json:"web_search,omitempty" min:"0" max:"1000000" doc:"Of a thousand searches of the web that the provider makes. Default: they have no price, so the cost of an answer with one is a lower bound."`
}

// cost returns the cost of tokens, in US dollars; nil if their number is not known. The provider's
// own figure wins.
func (p *Price) cost(u model.Usage) *float64 {
	switch {
	case u.CostUSD != nil:
		return u.CostUSD
	case u.Input == nil || u.Output == nil:
		return nil
	}
	count := func(n *int64) float64 {
		if n == nil {
			return 0
		}
		return float64(*n)
	}
	price := func(own *float64) float64 { return *cmp.Or(own, &p.Input) }
	read, written := count(u.Cached), count(u.CacheWrite)
	hour := min(count(u.CacheWriteHour), written)
	fresh := max(0, count(u.Input)-read-written)
	total := fresh*p.Input + read*price(p.CacheRead) + (written-hour)*price(p.CacheWrite) + count(u.Output)*p.Output
	total += hour * *cmp.Or(p.CacheWriteHour, new(2*p.Input))
	if p.WebSearch != nil {
		total += count(u.Searches) * *p.WebSearch * 1000
	}
	return new(total / 1e6)
}

// Cost returns the cost of an answer of the model, in US dollars; nil if it is not known. The price
// in the job file wins, then that of package prices for the name that the provider states, then
// that for the requested name.
func (m Model) Cost(answered string, at time.Time, u model.Usage) *float64 {
	if m.Price != nil {
		return m.Price.cost(u)
	}
	if cost := prices.Cost(m.baseURL(), answered, at, u); cost != nil {
		return cost
	}
	return prices.Cost(m.baseURL(), m.Model, at, u)
}

// Unpriced reports whether Cost leaves out a part of an answer's usage, as far as u tells: web
// searches without a price.
func (m Model) Unpriced(answered string, at time.Time, u model.Usage) bool {
	switch {
	case u.CostUSD != nil || u.Searches == nil || *u.Searches == 0:
		return false
	case m.Price != nil:
		return m.Price.WebSearch == nil
	}
	return !prices.Searches(m.baseURL(), answered, at) && !prices.Searches(m.baseURL(), m.Model, at)
}

// priced reports whether the model has a price.
func (m Model) priced(now time.Time) bool {
	return m.Price != nil || prices.Known(m.baseURL(), m.Model, now)
}

func (m Model) baseURL() string { return cmp.Or(m.BaseURL, api.BaseURL(model.API(m.API))) }

// ModelSecrets holds the values of a model that must stay in memory: never write them.
type ModelSecrets struct {
	Key     string
	Headers map[string]string
}

// modelsCheck checks the key models. Loaded.UseModels keeps it.
type modelsCheck struct {
	*checker
	secrets map[string]bool // the secret values of the whole job, to which it adds those of models
	except  map[string]bool // the variables of the host that are no secrets
}

// check checks the models, expands their secrets, and checks the agents' references to them.
func (c *modelsCheck) check() {
	job := &c.out.Job
	c.out.Models, c.out.Scripts, c.out.ScriptFiles, c.out.RecordDirs = map[string]ModelSecrets{}, map[string]scripted.Script{}, map[string]string{}, map[string]string{}
	c.out.ModelAt = func(name, key string) (Place, string) {
		p := fields.Path{"models"}.Child(name)
		if key != "" {
			p = p.Child(key)
		}
		return c.Root.Locate(p, false), p.String()
	}
	used := map[string]bool{}
	for _, a := range job.Agents {
		used[a.Model] = true
	}
	for _, j := range job.Judges {
		used[j.Model] = true
	}
	for _, name := range c.opts.AlsoModels {
		used[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(job.Models)) {
		m := job.Models[name]
		p := fields.Path{"models"}.Child(name)
		if strings.EqualFold(name, judge.PolicyModel) {
			c.Problem(p, "choose another name", "models.%s is reserved: policy stands for the trial's own model", name)
		}
		if m.Model == "" {
			m.Model = name
			job.Models[name] = m
		}
		c.keys(m, p)
		if used[name] && !c.BadBelow(p) { // a key that no agent needs may be missing
			c.use(name)
		}
	}
	for _, a := range job.Agents {
		c.agentModel(a, c.agentPath(a.Name))
	}
	c.out.UseModels = c.useMore
}

// useMore implements Loaded.UseModels.
func (c *modelsCheck) useMore(names []string) error {
	c.Problems.List = nil
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		_, there := c.out.Job.Models[name]
		if _, has := c.out.Models[name]; there && !has {
			c.use(name)
		}
	}
	if c.refused != nil {
		return c.refused
	}
	c.out.Secrets = slices.Sorted(maps.Keys(c.secrets))
	list := c.Problems.All(c.source.file)
	c.out.Warnings = append(c.out.Warnings, list.Warnings()...)
	return list.Err()
}

// use expands the secrets of a model, reads its script, and checks that the job's budget can
// count its cost.
func (c *modelsCheck) use(name string) {
	m, p := c.out.Job.Models[name], fields.Path{"models"}.Child(name)
	if c.out.Job.Budget.MaxCostUSD != nil && !m.priced(c.opts.Now()) {
		c.Problem(p, "add price:, or remove budget.max_cost_usd", "the price of the model %q is not known, so the job's budget in dollars cannot be kept", fields.Shorten(name))
	}
	own := ModelSecrets{Headers: map[string]string{}}
	if m.Replay != "" { // no provider is called, so nothing is needed for it
		c.out.Models[name] = own
		if c.out.RecordDirs[name] = c.admit(resolve(c.source.dir, m.Replay)); !c.opts.OnlyJobFile && !isDir(c.out.RecordDirs[name]) {
			c.Problem(p.Child("replay"), "record one first, with record_to", "%s: there is no directory %s", p.Child("replay"), fields.Shorten(m.Replay))
		}
		return
	}
	if m.RecordTo != "" {
		c.out.RecordDirs[name] = resolve(c.source.dir, m.RecordTo)
	}
	own.Key = c.secret(m.APIKey, name, p.Child("api_key"))
	if own.Key != "" && len(References(m.APIKey)) == 0 {
		c.secrets[own.Key] = true
		c.Warn(c.Root.Locate(p.Child("api_key"), false), "write ${NAME_OF_A_VARIABLE}", "the key of the model %q is in the job file, which the results repeat", fields.Shorten(name))
	}
	for _, header := range slices.Sorted(maps.Keys(m.Headers)) {
		own.Headers[header] = c.secret(m.Headers[header], name, p.Child("headers").Child(header))
		c.inHeader(own.Headers[header], p.Child("headers").Child(header))
	}
	c.inHeader(own.Key, p.Child("api_key"))
	c.out.Models[name] = own
	if m.API == APIScripted {
		c.out.ScriptFiles[name] = c.admit(resolve(c.source.dir, m.Script))
		if !c.opts.OnlyJobFile {
			c.out.Scripts[name] = c.script(m, c.out.ScriptFiles[name], p.Child("script"))
		}
	}
}

// inHeader checks that a value can be sent in a header.
func (c *modelsCheck) inHeader(value string, p fields.Path) {
	switch {
	case model.InHeader(value):
	case model.InHeader(strings.TrimRight(value, "\r\n")):
		c.Problem(p, "remove the line break from the variable or the secret: printf writes none, echo does", "%s: the value ends with a line break, which no header can have", p)
	default:
		c.Problem(p, "correct the variable or the secret", "%s: the value has a line break or another control character, which no header can have", p)
	}
}

// script reads the script of a scripted model, the file full.
func (c *modelsCheck) script(m Model, full string, p fields.Path) scripted.Script {
	var script scripted.Script
	data, err := os.ReadFile(full)
	if err != nil {
		c.Problem(p, "write the path relative to the job file", "%s: %s cannot be read: %v", p, fields.Shorten(m.Script), withoutPath(err))
		return script
	}
	src := source{file: m.Script, data: data, json: strings.EqualFold(filepath.Ext(m.Script), ".json")}
	before := len(c.Problems.List)
	root := src.parse(c.Problems)
	if root == nil {
		return script
	}
	d := newDecoder(root, c.Problems)
	d.Decode(&script)
	if len(c.Problems.List) == before {
		for _, problem := range script.Problems() {
			d.Problem(problem.At, problem.Hint, "%s", problem.What)
		}
	}
	return script
}

// withoutPath returns an error's reason without the absolute path of the file.
func withoutPath(err error) error {
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
		return failed.Err
	}
	return err
}

// keys checks keys of a model that depend on each other.
func (c *modelsCheck) keys(m Model, p fields.Path) {
	if c.BadBelow(p) {
		return
	}
	c.recordTokens(m, p)
	if m.API == APIScripted {
		for _, one := range []struct {
			key string
			set bool
		}{{"base_url", m.BaseURL != ""}, {"api_key", m.APIKey != ""}, {"headers", len(m.Headers) > 0}, {"record_to", m.RecordTo != ""}, {"replay", m.Replay != ""}} {
			if one.set {
				c.Problem(p.Child(one.key), "remove it", "a scripted model has no %s", one.key)
			}
		}
		if m.Script == "" {
			c.Problem(p, "add script: FILE", "a scripted model needs a script")
		}
		return
	}
	if m.RecordTo != "" && m.Replay != "" {
		c.Problem(p.Child("record_to"), "remove one of them", "a model that answers from records (replay) has nothing to record")
	}
	if m.Script != "" {
		c.Problem(p.Child("script"), "set api: scripted", "only a scripted model has a script")
	}
	if m.BaseURL != "" {
		if _, err := gateway.New(gateway.Config{API: model.API(m.API), BaseURL: m.BaseURL}); err != nil {
			c.Problem(p.Child("base_url"), "", "%s%v", strings.TrimSuffix(p.Child("base_url").String(), "base_url"), err)
		}
	}
}

// recordTokens checks that the provider can return the ids of tokens and that they are recorded.
func (c *modelsCheck) recordTokens(m Model, p fields.Path) {
	at, tell := p.Child("record_tokens"), fmt.Sprint(api.WithTokens()[0])
	switch {
	case !m.RecordTokens:
	case m.API != APIScripted && !slices.Contains(api.WithTokens(), model.API(m.API)):
		c.Problem(at, "remove it, or use the server's api "+tell, "%s: only the api %s states the ids of tokens, and this model speaks %s", at, tell, m.API)
	case m.Record != "" && m.Record != string(model.RecordMessages):
		c.Problem(at, "remove one of them", "%s: with record: %s no contents are kept, and the ids of tokens are contents", at, m.Record)
	}
}

// secret expands a value of a model.
func (c *modelsCheck) secret(text, name string, p fields.Path) string {
	e := c.expand(text)
	at := c.Root.Locate(p, false)
	if e.malformed != "" {
		c.Add(at, "write ${VAR} or ${VAR:-default}; $$ is a $", "%s: %s", p, e.malformed)
	}
	c.unsetVariables(e, at, fmt.Sprintf("model %q", fields.Shorten(name)))
	for host, value := range e.host {
		if value == "" && !slices.Contains(e.missing, host) {
			c.Warn(at, "is there no such secret? Pull requests from forks have none", "environment variable %s is set but empty; model %q needs it", host, fields.Shorten(name))
		} else if value != "" && !c.except[host] {
			c.secrets[value] = true
		}
	}
	return e.value
}

// agentModel checks an agent's keys about its model.
func (c *modelsCheck) agentModel(a agent.Agent, p fields.Path) {
	job := c.out.Job
	m, known := job.Models[a.Model]
	switch {
	case c.BadBelow(p.Child("model")) || c.Bad(fields.Path{"models"}):
	case a.Model == "" && a.Budget != (agent.Budget{}):
		if preset, ok := presets.Get(a.Preset); ok && preset.NoGateway != "" {
			c.Problem(p.Child("budget"), "remove it", "the preset %s cannot have a budget, which a model of the job keeps: %s", a.Preset, preset.NoGateway)
			return
		}
		c.Problem(p.Child("budget"), "add model: and models:, or remove it", "agent %q has a budget but no model that Rollout knows of", fields.Shorten(a.Name))
	case a.Model == "":
	case a.Reserved():
		c.Problem(p.Child("model"), "remove it, or rename the agent", "agent %q is built in and uses no model", a.Name)
	case !known:
		hint := cmp.Or(diag.DidYouMean(a.Model, slices.Sorted(maps.Keys(job.Models))), "add it to models")
		c.Problem(p.Child("model"), hint, "agent %q has the model %q, which is not in models", fields.Shorten(a.Name), fields.Shorten(a.Model))
	case a.Budget.MaxCostUSD != nil && !m.priced(c.opts.Now()):
		c.Problem(p.Child("budget").Child("max_cost_usd"), fmt.Sprintf("add models.%s.price, or use max_total_tokens", a.Model),
			"the price of the model %q is not known, so a budget in dollars cannot be kept", fields.Shorten(a.Model))
	}
}
