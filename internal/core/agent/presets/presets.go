// Package presets holds ready-to-run agents: how each is installed, started and connected to a
// model. A preset is a file NAME.yaml of this directory, and becomes two bash scripts.
package presets

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
	"mvdan.cc/sh/v3/syntax"
)

// Shell names the preset that is Rollout's built-in loop. It has no scripts.
const Shell = "shell"

// Latest stands for the newest version.
const Latest = "latest"

// Dir is the directory in environments in which presets are installed.
const Dir = "/opt/rollout-agent"

// SkillsDir is the directory in environments with an agent's own skills.
const SkillsDir = Dir + "/skills"

// MaxArgument is the maximum length in bytes of an instruction that is passed as one argument.
// Linux takes 128 KiB with the option before it (MAX_ARG_STRLEN in include/uapi/linux/binfmts.h).
const MaxArgument = 130_000

// Variables of environments that the scripts of presets read.
const (
	NetworkVar    = "ROLLOUT_NETWORK"           // none, allowlist or public, while execute runs
	MCPVar        = "ROLLOUT_MCP_SERVERS"       // MCP servers by name, in the form {"mcpServers": …}
	TaskSkillsVar = "ROLLOUT_TASK_SKILLS"       // the directory with the task's skills
	ThirdPartyVar = "ROLLOUT_MODEL_THIRD_PARTY" // set if the model's server is not that of its API's author
)

// Preset is an agent that is ready to run.
type Preset struct {
	Name     string `yaml:"-" json:"name"`
	About    string `yaml:"about" json:"about"`       // one sentence
	Homepage string `yaml:"homepage" json:"homepage"` // URL
	Version  string `yaml:"version" json:"version"`   // the default
	// APIs are the protocols that it can speak to a gateway, the best first; if there are none,
	// NoGateway is the reason.
	APIs      []string `yaml:"apis" json:"apis"`
	NoGateway string   `yaml:"no_gateway" json:"no_gateway,omitempty"`
	// Keys are variables that hold its own API key. Without a model of the job, it needs one of
	// them.
	Keys []string `yaml:"keys" json:"keys,omitempty"`
	// NPM and PyPI are the package that it is installed from, with Node of at least that major
	// version, or a Python between the two minor versions of Python 3, both included. InstallScript
	// is bash for others; it has the functions of the composed script.
	NPM           string `yaml:"npm" json:"npm,omitempty"`
	Node          int    `yaml:"node" json:"node,omitempty"`
	PyPI          string `yaml:"pypi" json:"pypi,omitempty"`
	Python        [2]int `yaml:"python,flow" json:"-"`
	With          string `yaml:"with" json:"-"` // further packages, as the installer takes them
	InstallScript string `yaml:"install" json:"-"`
	// Command is the program; its output for VersionOption must have the version.
	Command string `yaml:"command" json:"command,omitempty"`
	// Argument: its command takes the instruction as one argument alone, so that it must not have
	// more than MaxArgument bytes.
	Argument      bool   `yaml:"argument" json:"-"`
	VersionOption string `yaml:"version_option" json:"-"` // default: --version; "none": the package's own version alone counts
	Env           Env    `yaml:"env" json:"-"`
	// Sessions is the directory in which it keeps its sessions. Skills is the one in which it looks
	// for skills. Both may begin with ~.
	Sessions string `yaml:"sessions" json:"sessions,omitempty"`
	Skills   string `yaml:"skills" json:"skills,omitempty"`
	// MCP: it takes MCP servers, from MCPVar.
	MCP bool `yaml:"mcp" json:"mcp"`
	// ExecuteScript is bash. It has the array args, the variables of the gateway and the
	// instruction in $ROLLOUT_TASK_INSTRUCTION.
	ExecuteScript string `yaml:"execute" json:"-"`
	// Remarks are for users, one sentence each.
	Remarks []string `yaml:"remarks" json:"remarks,omitempty"`
	// Tried says when which version solved a task behind the gateway; "": never.
	Tried string `yaml:"tried" json:"tried,omitempty"`
}

// Env is a list of variables in the order of the file.
type Env []Variable

// Variable is one variable.
type Variable struct{ Name, Value string }

// UnmarshalYAML implements yaml.Unmarshaler.
func (e *Env) UnmarshalYAML(n *yaml.Node) error {
	for i := 0; i+1 < len(n.Content); i += 2 {
		*e = append(*e, Variable{n.Content[i].Value, n.Content[i+1].Value})
	}
	return nil
}

//go:embed *.yaml scripts/*.sh
var files embed.FS

// all reads the presets once. A file that cannot be read is a bug, which a test finds.
var all = sync.OnceValues(func() (map[string]Preset, error) {
	presets := map[string]Preset{}
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		name, isPreset := strings.CutSuffix(entry.Name(), ".yaml")
		if !isPreset {
			continue
		}
		text, err := files.Open(entry.Name())
		if err != nil {
			return nil, err
		}
		p := Preset{Name: name}
		decoder := yaml.NewDecoder(text)
		decoder.KnownFields(true)
		if err := decoder.Decode(&p); err != nil {
			return nil, fmt.Errorf("%s: %w", entry.Name(), err)
		}
		presets[name] = p
	}
	return presets, nil
})

// Names returns the names of all presets, sorted.
func Names() []string {
	presets, err := all()
	if err != nil {
		panic(err)
	}
	names := make([]string, 0, len(presets))
	for name := range presets {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Get returns the preset of that name, if there is one.
func Get(name string) (Preset, bool) {
	presets, err := all()
	if err != nil {
		panic(err)
	}
	p, ok := presets[name]
	return p, ok
}

// Speaks reports whether the preset can speak a model's protocol.
func (p Preset) Speaks(api string) bool { return slices.Contains(p.APIs, api) }

// Install returns the script that installs a version, "" for the default; "" if there is nothing to
// install.
func (p Preset) Install(version string) string {
	if version == "" {
		version = p.Version
	}
	if p.NPM == "" && p.PyPI == "" && p.InstallScript == "" {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Installs %s, unless this version is there already.\nset -euo pipefail\n", p.Name)
	set := func(name, value string) { fmt.Fprintf(&b, "%s=%s\n", name, Quote(value)) }
	set("command", p.Command)
	set("version", version)
	set("version_option", p.VersionOption)
	b.WriteString(script("common"))
	switch {
	case p.NPM != "":
		set("package", p.NPM)
		fmt.Fprintf(&b, "with=(%s)\nnode_least=%d\n", p.With, p.Node)
		b.WriteString(script("npm"))
	case p.PyPI != "":
		set("package", p.PyPI)
		fmt.Fprintf(&b, "with=(%s)\npython_least=%d\npython_most=%d\n", p.With, p.Python[0], p.Python[1])
		b.WriteString(script("pypi"))
	default:
		b.WriteString("\n" + p.InstallScript)
	}
	b.WriteString(script("check"))
	return b.String()
}

// Execute returns the script that runs the agent with further arguments.
func (p Preset) Execute(args []string) string {
	if p.ExecuteScript == "" {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Runs %s on the instruction.\nset -o pipefail\n", p.Name)
	b.WriteString("args=(" + quoteAll(args) + ")\n")
	for _, v := range p.Env {
		fmt.Fprintf(&b, "export %[1]s=\"${%[1]s-%[2]s}\"\n", v.Name, v.Value)
	}
	b.WriteString(script("execute"))
	if p.Sessions != "" {
		fmt.Fprintf(&b, "keep_sessions %s\n", homePath(p.Sessions))
	}
	if p.Skills != "" {
		fmt.Fprintf(&b, "copy_skills %s\n", homePath(p.Skills))
	}
	b.WriteString("\n" + p.ExecuteScript)
	return b.String()
}

// script returns a part that the scripts of presets share, after an empty line.
func script(name string) string {
	text, err := files.ReadFile(path.Join("scripts", name+".sh"))
	if err != nil {
		panic(err)
	}
	return "\n" + string(text)
}

// homePath quotes a path and expands a leading ~ to the home directory.
func homePath(p string) string {
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		return `"$HOME/` + rest + `"`
	}
	return `"` + p + `"` // with variables
}

// Quote returns text as one word of bash.
func Quote(text string) string {
	quoted, err := syntax.Quote(text, syntax.LangBash)
	if err != nil { // a NUL, which no variable can have
		return "''"
	}
	if quoted == "" {
		return "''"
	}
	return quoted
}

func quoteAll(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = Quote(word)
	}
	return strings.Join(quoted, " ")
}
