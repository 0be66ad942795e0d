// Package agent defines agents, the subjects of an evaluation: a pair of bash scripts with
// variables, or one of the reserved agents. It does not know how scripts are run.
package agent

import (
	"path/filepath"
	"slices"
	"strings"
)

// Agent is one entry of agents in job.yaml. Values of Env keep their ${VAR} placeholders.
// Source: specification, "Agent".
type Agent struct {
	Name        string `yaml:"name" json:"name" required:"true" doc:"Name of the agent in results. oracle (runs the task's solution) and nop (does nothing) are built in."`
	Description string `yaml:"description" json:"description,omitempty" raw:"true" experiment:"no" doc:"The agent's name in reports."`
	// Preset names a ready-to-run agent of package presets; "": the agent has its own scripts.
	// Install, Execute, Files and Env are extended by the preset.
	Preset     string     `yaml:"preset" json:"preset,omitempty" doc:"An agent that is ready to run, such as claude-code: rollout agents ls has their names. It gives install and execute; those that the agent has win."`
	Version    string     `yaml:"version" json:"version,omitempty" pattern:"^[0-9A-Za-z][0-9A-Za-z.+_-]*$" is:"a version" hint:"write it like 1.2.3, or latest" doc:"The version of the preset's agent, or latest. Default: the one that the preset was tried with."`
	Args       []string   `yaml:"args" json:"args,omitempty" most:"1000" raw:"true" doc:"Further arguments of the preset's command."`
	MCPServers MCPServers `yaml:"mcp_servers" json:"mcp_servers,omitempty" doc:"MCP servers for the preset's agent, by name. ${VAR} works as in env."`
	Skills     string     `yaml:"skills" json:"skills,omitempty" doc:"A directory of skills for the preset's agent, relative to the job file. Each is a directory with a SKILL.md."`
	Files      []File     `yaml:"files" json:"files,omitempty" most:"1000" experiment:"no" doc:"Files, directories and globs of the repository that are in the environment before install runs. A text is short for {source: text}."`
	Install    string     `yaml:"install" json:"install,omitempty" raw:"true" doc:"Bash script that installs the agent."`
	Execute    string     `yaml:"execute" json:"execute,omitempty" raw:"true" doc:"Bash script that runs the agent on the instruction in the file $ROLLOUT_TASK_INSTRUCTION."`
	// CacheInstall: Install runs once for an image, and all trials with that image start from what
	// it left. nil: see CachesInstall.
	CacheInstall *bool `yaml:"cache_install" json:"cache_install,omitempty" doc:"Run install once per image, and start all trials with the files that it left. Only for scripts that leave files: processes are not kept. Default: true for presets, else false."`
	// Model is a name in the job's models; "": the agent reaches its model by itself.
	Model  string `yaml:"model" json:"model,omitempty" doc:"The model of the agent, by its name in models. The agent gets a URL and a token for this trial only, in ROLLOUT_MODEL_URL, ROLLOUT_MODEL_KEY, ROLLOUT_MODEL_NAME and the variables that clients of the model's API read."`
	Budget Budget `yaml:"budget" json:"budget,omitzero" doc:"The most that the agent may use of its model in one trial. When it is used up, further requests are refused, and the trial is verified as it is."`
	// Trainable does not affect trials. It is never true for an agent that only judges.
	Trainable bool              `yaml:"trainable" json:"trainable,omitempty" experiment:"no" doc:"Conversations of the agent may be used for training: its results say so, and rollout export --trainable writes only those. Conversations of judges never may."`
	Env       map[string]string `yaml:"env" json:"env,omitempty" doc:"Variables of both scripts. ${VAR} and ${VAR:-default} are taken from the environment of Rollout, $$ is a $."`
}

// Budget limits an agent's usage of its model in one trial. 0 and nil mean no limit. Tokens and
// costs are known when a turn has ended, so the last turn may exceed them.
type Budget struct {
	MaxTurns        int      `yaml:"max_turns" json:"max_turns,omitempty" min:"1" max:"1000000" doc:"Requests that reach the provider of the model, answered or not."`
	MaxInputTokens  int      `yaml:"max_input_tokens" json:"max_input_tokens,omitempty" unit:"count" min:"1" max:"1000000000000" doc:"Tokens that the model reads, of all turns together: 500000, 500k or 2M. The last turn may exceed it."`
	MaxOutputTokens int      `yaml:"max_output_tokens" json:"max_output_tokens,omitempty" unit:"count" min:"1" max:"1000000000000" doc:"Tokens that the model writes: 500000, 500k or 2M. The last turn may exceed it."`
	MaxTotalTokens  int      `yaml:"max_total_tokens" json:"max_total_tokens,omitempty" unit:"count" min:"1" max:"1000000000000" doc:"Tokens that the model reads and writes: 500000, 500k or 2M. The last turn may exceed it."`
	MaxCostUSD      *float64 `yaml:"max_cost_usd" json:"max_cost_usd,omitempty" above:"0" doc:"US dollars for the model, by its price. The last turn may exceed it."`
}

// File is one entry of files: a file, a directory or a glob, and its target in the environment. See
// package agentfiles.
type File struct {
	Source    string `yaml:"source" json:"source" required:"true" short:"true" doc:"File, directory or glob (*, ?, [a-z], {a,b}, **), relative to the job file. Links must stay in the directory."`
	Target    string `yaml:"target" json:"target,omitempty" pattern:"^/" is:"an absolute path" hint:"write it like /agent" doc:"Absolute path in the environment: of the directory or file; of a file's directory if it ends in /. For a glob, of the directory that the glob begins in. Default: / and the source's name."`
	Gitignore bool   `yaml:"gitignore" json:"gitignore" default:"true" doc:"Leave out files that the repository's .gitignore files name."`
}

// The reserved names. Oracle runs the task's solution. Nop does nothing, so a task on which it
// scores 1 is broken.
const (
	Oracle = "oracle"
	Nop    = "nop"
)

// Reserved reports whether the agent is built in. Such an agent has no scripts.
func (a Agent) Reserved() bool { return a.Name == Oracle || a.Name == Nop }

// CachesInstall reports whether install runs once for an image. If the agent does not set it, it is
// true for presets.
func (a Agent) CachesInstall() bool {
	if a.CacheInstall != nil {
		return *a.CacheInstall && a.Install != ""
	}
	return a.Preset != "" && a.Install != ""
}

// Evaluated selects from the names of a job's agents those that its results are about: agents that
// are not built in; without any, oracle; without oracle, nop. With other agents, oracle and nop
// only check the tasks. names is not changed.
func Evaluated(names []string) []string {
	for _, others := range [][]string{{Oracle, Nop}, {Nop}} {
		kept := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(others, name) })
		if len(kept) > 0 {
			return kept
		}
	}
	return slices.Clone(names)
}

// IsGlob reports whether the source is a glob.
func (f File) IsGlob() bool {
	_, glob := SplitGlob(f.Source)
	return glob != ""
}

// PutAt returns the absolute target path in the environment: Target, or / and the name of the
// source; for a glob, / and the name of the directory in which it begins. It returns "" if there is
// no such name.
func (f File) PutAt() string {
	if f.Target != "" {
		return f.Target
	}
	base, _ := SplitGlob(f.Source)
	name := filepath.Base(base)
	if name == "." || name == ".." || name == string(filepath.Separator) {
		return ""
	}
	return "/" + name
}

// SplitGlob splits a path before its first element with a special character of globs. glob is "" if
// there is none.
func SplitGlob(source string) (base, glob string) {
	special := strings.IndexAny(source, `*?[{`)
	if special < 0 {
		return source, ""
	}
	slash := strings.LastIndexByte(source[:special], '/')
	switch {
	case slash < 0:
		return ".", source
	case slash == 0:
		return "/", source[1:]
	}
	return source[:slash], source[slash+1:]
}
