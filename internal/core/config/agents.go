package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/agent/presets"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/judge"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/fields"
)

// agents checks all agents of the file, then keeps those in Options.OnlyAgents.
func (c *checker) agents() {
	names := c.newNames("agents", "rename one of them")
	for i := range c.out.Job.Agents {
		p := fields.Path{"agents"}.Index(i)
		if !c.Bad(p) {
			c.agent(&c.out.Job.Agents[i], p, names)
		}
	}
	for i := range c.out.Job.JudgeAgents {
		p := fields.Path{"judge_agents"}.Index(i)
		if a := &c.out.Job.JudgeAgents[i]; !c.Bad(p) && c.onlyJudges(*a, p) {
			c.agent(a, p, names)
		}
	}
	broken := c.BadBelow(fields.Path{"agents"})
	c.selectAgents(broken)
	if len(c.out.Job.Agents) == 0 && !broken && len(c.opts.OnlyAgents) == 0 {
		c.Add(c.Root.Locate(fields.Path{"agents"}, true), "add agents:, each with a name and an execute script, or - name: oracle", "the job has no agents")
	}
}

func (c *checker) agent(a *agent.Agent, p fields.Path, names *names) {
	presetCheck{checker: c, agent: a, at: p}.apply()
	c.agentName(*a, p, names)
	c.scripts(*a, p)
	c.bash(*a, p)
	c.cacheInstall(*a, p)
}

// onlyJudges reports whether an agent can be one of judge_agents.
func (c *checker) onlyJudges(a agent.Agent, p fields.Path) bool {
	switch {
	case a.Reserved():
		c.Problem(p.Child("name"), "remove it", "agent %q is built in and judges nothing", a.Name)
	case a.Model != "":
		c.Problem(p.Child("model"), "write it in judges", "agent %q only judges, and has the model of its judge", fields.Shorten(a.Name))
	case a.Budget != (agent.Budget{}):
		c.Problem(p.Child("budget"), "write it in judges", "agent %q only judges, and has the budget of its judge", fields.Shorten(a.Name))
	case a.Trainable:
		c.Problem(p.Child("trainable"), "remove it", "agent %q only judges, and what judges say is never used for training", fields.Shorten(a.Name))
	default:
		return true
	}
	return false
}

func (c *checker) agentName(a agent.Agent, owner fields.Path, names *names) {
	p := owner.Child("name")
	if c.Bad(p) {
		return
	}
	if slug := result.Slug(a.Name); slices.Contains(result.ReservedNames, slug) {
		c.Problem(p, "choose another name", "agent %q would have the directory %q, where the job keeps something else", a.Name, slug)
		return
	}
	names.takePlain(a.Name, owner, p)
}

func (c *checker) scripts(a agent.Agent, p fields.Path) {
	scripts := []struct{ key, text string }{{"install", a.Install}, {"execute", a.Execute}}
	switch {
	case a.Reserved():
		if len(a.Files) > 0 {
			c.Problem(p.Child("files"), "remove the files, or rename the agent", "agent %q is built in and takes no files", a.Name)
		}
		for _, s := range scripts {
			if s.text != "" {
				c.Problem(p.Child(s.key), "remove the script, or rename the agent", "agent %q is built in and takes no %s script", a.Name, s.key)
			}
		}
	case c.Bad(p.Child("execute")) || c.Bad(p.Child("name")) || c.Bad(p.Child("preset")) || a.Preset == presets.Shell:
	case strings.TrimSpace(a.Execute) == "":
		hint := fmt.Sprintf("only %s and %s need none", agent.Oracle, agent.Nop)
		if near := diag.DidYouMean(a.Name, []string{agent.Oracle, agent.Nop}); near != "" {
			hint = near + " " + hint
		}
		c.Problem(p, hint, "agent %q has no execute script", fields.Shorten(a.Name))
	}
}

// cacheInstall checks that there is an install script to cache.
func (c *checker) cacheInstall(a agent.Agent, p fields.Path) {
	if at := p.Child("cache_install"); a.CacheInstall != nil && *a.CacheInstall && strings.TrimSpace(a.Install) == "" && !c.Bad(p.Child("install")) {
		c.Problem(at, "give an install script, or remove cache_install", "agent %q has no install script to cache", fields.Shorten(a.Name))
	}
}

// agentFiles resolves the files of the selected agents. Missing files are reported when they are
// read, or by missingFiles.
func (c *checker) agentFiles() {
	c.out.AgentFiles, c.out.AgentFilesAt = map[string][]string{}, map[string][]Place{}
	for _, a := range c.out.Job.AllAgents() {
		p := c.agentPath(a.Name).Child("files")
		for i, f := range a.Files {
			at := p.Index(i)
			c.fileTarget(f, at)
			if strings.HasPrefix(f.Source, "~") {
				c.Problem(at, "write the path in full", "~ is not expanded: %q", fields.Shorten(f.Source))
			}
			base, _ := agent.SplitGlob(f.Source)
			c.out.AgentFiles[a.Name] = append(c.out.AgentFiles[a.Name], c.admit(resolve(c.source.dir, base)))
			c.out.AgentFilesAt[a.Name] = append(c.out.AgentFilesAt[a.Name], c.Root.Locate(at, false))
		}
	}
}

// missingFiles reports the files of agents that do not exist. After other problems nothing reads
// them, and users want to know of all problems at once.
func (c *checker) missingFiles() {
	for _, a := range c.out.Job.AllAgents() {
		files := c.agentPath(a.Name).Child("files")
		for i, full := range c.out.AgentFiles[a.Name] {
			at := files.Index(i)
			if _, err := os.Lstat(full); errors.Is(err, fs.ErrNotExist) && !c.Bad(files) && !c.BadBelow(at) {
				base, _ := agent.SplitGlob(a.Files[i].Source)
				c.Problem(at, c.elsewhereAny(base), "files of agent %q: there is no %s", fields.Shorten(a.Name), fields.Shorten(base))
			}
		}
	}
}

// fileTarget checks the target path of a file.
func (c *checker) fileTarget(f agent.File, at fields.Path) {
	target := f.PutAt()
	switch clean := path.Clean(target); {
	case c.BadBelow(at):
	case target == "":
		c.Problem(at, fmt.Sprintf("add a target, such as {source: %q, target: /agent}", f.Source), "files: %q has no name that could be its place in the environment", fields.Shorten(f.Source))
	case clean == "/" && f.Target != "" && !f.IsGlob():
		c.Problem(at, "name a directory, such as /agent", "files cannot be put at the root of an environment")
	default:
		for _, taken := range append(environment.SpecialDirs(), "/proc", "/sys", "/dev") {
			if clean == taken || strings.HasPrefix(clean, taken+"/") {
				c.Problem(at, "choose another target, such as /agent", "files cannot be put at %s: %s has another use", fields.Shorten(clean), taken)
			}
		}
	}
}

// selectAgents applies Options.OnlyAgents. If the list of agents is broken, it does not report
// unknown names.
func (c *checker) selectAgents(broken bool) {
	only := c.opts.OnlyAgents
	if len(only) == 0 {
		return
	}
	all := c.out.Job.Agents
	var known []string
	for _, a := range all {
		known = append(known, a.Name)
	}
	kept := slices.DeleteFunc(slices.Clone(all), func(a agent.Agent) bool { return !slices.Contains(only, a.Name) })
	for _, name := range only {
		builtIn := agent.Agent{Name: name}
		switch {
		case slices.Contains(known, name):
		case builtIn.Reserved():
			kept = append(kept, builtIn)
			known = append(known, name)
		case broken, c.opts.AnyAgents:
		default:
			known := append(known, agent.Oracle, agent.Nop)
			hint := "there are: " + strings.Join(slices.Compact(slices.Sorted(slices.Values(known))), ", ")
			if near := diag.DidYouMean(name, known); near != "" {
				hint = near + " " + hint
			}
			c.Add(fields.Place{File: c.source.file}, hint, "there is no agent %q to run", name)
		}
	}
	c.out.Job.Agents = kept
	for _, name := range known {
		if !slices.Contains(only, name) {
			c.out.NotSelected.Agents = append(c.out.NotSelected.Agents, name)
		}
	}
	slices.Sort(c.out.NotSelected.Agents)
	for _, a := range all { // judges need theirs, whether they are evaluated or not
		judges := slices.ContainsFunc(c.out.Job.Judges, func(s judge.Spec) bool { return s.Agent == a.Name })
		if judges && !a.Reserved() && !slices.Contains(only, a.Name) {
			a.Model, a.Budget = "", agent.Budget{}
			c.out.Job.JudgeAgents = append(c.out.Job.JudgeAgents, a)
		}
	}
}

// variables checks and expands env of the selected agents.
func (c *checker) variables() {
	job := &c.out.Job
	c.exceptions()
	c.out.Env, c.out.Visible, c.out.Hidden = map[string]map[string]string{}, map[string]map[string]string{}, map[string][]string{}
	secrets := map[string]bool{}
	except := make(map[string]bool, len(job.Redact.Except))
	for _, name := range job.Redact.Except {
		except[name] = true
	}
	c.passed(secrets, except)
	for _, a := range job.AllAgents() {
		p := c.agentPath(a.Name).Child("env")
		env, visible, hidden := make(map[string]string, len(a.Env)), map[string]string{}, map[string]bool{}
		for _, name := range slices.Sorted(maps.Keys(a.Env)) {
			at := p.Child(name)
			c.variableName(name, at)
			e := c.expand(a.Env[name])
			if name == presets.MCPVar && len(a.MCPServers) > 0 {
				e.value = expand(a.Env[name], jsonGetenv(c.opts.Getenv)).value
			}
			env[name], visible[name] = e.value, e.value
			c.expansionProblems(a.Name, e, at)
			if name, ok := strings.CutPrefix(a.Env[name], "$"); ok && variableName.MatchString(name) {
				c.Warn(c.Root.Locate(at, false), "write ${"+name+"} for the variable of this machine, or $$"+name+" for this text",
					"agent %q gets the text $%s, not the value of a variable", fields.Shorten(a.Name), name)
			}
			for _, host := range slices.Sorted(maps.Keys(e.host)) {
				value := e.host[host]
				if value == "" && !slices.Contains(e.missing, host) { // a workflow sets a missing secret to ""
					c.Warn(c.Root.Locate(at, false), "is there no such secret? Pull requests from forks have none",
						"environment variable %s is set but empty; agent %q needs it", host, fields.Shorten(a.Name))
				}
				if except[host] {
					continue
				}
				hidden[host] = true
				delete(visible, name)
				if value != "" {
					secrets[value] = true
				}
			}
		}
		c.out.Env[a.Name], c.out.Visible[a.Name], c.out.Hidden[a.Name] = env, visible, slices.Sorted(maps.Keys(hidden))
	}
	(&modelsCheck{c, secrets, except}).check()
	c.out.Secrets = slices.Sorted(maps.Keys(secrets))
}

// agentPath returns the path of an agent in the file, where its index may differ from that in the
// job.
func (c *checker) agentPath(name string) fields.Path {
	if c.agentAt == nil {
		c.agentAt = map[string]fields.Path{}
		for _, key := range []string{"judge_agents", "agents"} {
			if f := c.Root.Field(key); f != nil {
				for i, item := range slices.Backward(f.Value.Items) { // the first agent of a name wins
					if n := item.Given("name"); n != nil {
						c.agentAt[n.Text] = fields.Path{key}.Index(i)
					}
				}
			}
		}
	}
	if p, ok := c.agentAt[name]; ok {
		return p
	}
	return fields.Path{"agents"}
}

func (c *checker) variableName(name string, p fields.Path) {
	switch {
	case name == "ROLLOUT_TASK_INSTRUCTION":
		c.Add(c.Root.Locate(p, true), "see instruction_path", "%s is set by Rollout", name)
	case !variableName.MatchString(name):
		c.Add(c.Root.Locate(p, true), "use letters, digits and _", "%q is not a name for a variable", fields.Shorten(name))
	}
}

func (c *checker) expansionProblems(agent string, e expansion, p fields.Path) {
	at := c.Root.Locate(p, false)
	if e.malformed != "" {
		c.Add(at, "write ${VAR} or ${VAR:-default}; $$ is a $", "%s: %s", p, e.malformed)
	}
	c.unsetVariables(e, at, fmt.Sprintf("agent %q", fields.Shorten(agent)))
}

// expand replaces the placeholders in a value. With Options.Unused, variables that are not set are
// empty.
func (c *checker) expand(text string) expansion {
	e := expand(text, c.opts.Getenv)
	for name, value := range e.host {
		c.uses(name, value)
	}
	for _, name := range e.unset {
		c.uses(name, "")
	}
	if c.opts.Unused {
		e.unset, e.missing = nil, e.unset
		for _, name := range e.missing {
			e.host[name] = ""
		}
	}
	return e
}

// uses notes that the job uses a variable of the host.
func (c *checker) uses(name, value string) {
	if c.out.Variables == nil {
		c.out.Variables = map[string]bool{}
	}
	c.out.Variables[name] = value != ""
}

// unsetVariables reports the variables of a value that are not set.
func (c *checker) unsetVariables(e expansion, at fields.Place, who string) {
	for _, name := range e.unset {
		c.Add(at, howToSet(name), "environment variable %s is not set; %s needs it", name, who)
	}
	for _, name := range e.missing {
		c.Warn(at, howToSet(name), "environment variable %s is not set; %s needs it when it runs", name, who)
	}
}

// howToSet returns the hint for a variable that is not set.
func howToSet(name string) string {
	return fmt.Sprintf("export it, put it into a file for --env-file, or give a default: ${%s:-…}", name)
}

// exceptions checks redact.except.
func (c *checker) exceptions() {
	for i, name := range c.out.Job.Redact.Except {
		if p := (fields.Path{"redact", "except"}).Index(i); !variableName.MatchString(name) {
			c.Problem(p, "give the name alone, without ${}", "%s: %q is not a name for a variable", p, fields.Shorten(name))
		}
	}
}
