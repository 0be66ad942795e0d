package cli

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/sethvargo/go-githubactions"

	"github.com/org/rollout-action/internal/app"
	"github.com/org/rollout-action/internal/config"
	"github.com/org/rollout-action/internal/diag"
)

// input is one input of the Action. action.yml lists the same ones.
type input struct {
	name     string
	commands []string // those that have a use for it
	as       inputUse
	// standard is its value when the workflow sets none. A command that has no use for it does not mind this one.
	standard string
	// without explains what to do instead, when a command has no use for it; may be "".
	without string
}

// inputUse is what becomes of an input.
type inputUse int

const (
	asFlag     inputUse = iota // --name=value
	asFlags                    // --name=line, for each line
	asArgument                 // an argument
	asPaths                    // each line is an argument
	asOwn                      // is for the Action itself
)

var (
	actionCommands = []string{"run", "plan", "merge", "report", "validate"}
	onlyPlan       = []string{"plan"}
	onlyValidate   = []string{"validate"}
	executing      = []string{"run", "validate"} // what the checkout says
	ofAgents       = []string{"run", "plan"}
	beforehand     = []string{"run", "plan", "validate"}
	afterwards     = []string{"merge", "report"}
	withReport     = []string{"run", "merge", "report"}
	withFiles      = []string{"run", "merge", "report", "validate"}
)

// actionInputs returns all inputs, in the order in which they become a command line.
func actionInputs() []input {
	inputs := []input{
		{name: "command", commands: actionCommands, as: asOwn, standard: "run"},
		{name: "job", commands: beforehand, as: asArgument, without: "it has paths instead: directories with results"},
		{name: "paths", commands: afterwards, as: asPaths, without: "it has job instead: a job file"},
		{name: "shard", commands: executing, without: "each job of the matrix runs one shard, and merge puts them together"},
		{name: "shards", commands: onlyPlan, without: "plan divides a job, and run has shard: 1/4"},
		{name: "target", commands: onlyPlan, without: "plan divides a job, and run has shard: 1/4"},
		{name: "timings", commands: ofAgents},
		{name: "reuse", commands: []string{"run"}, as: asFlags, without: "only run takes trials over"},
		{name: "agent", commands: ofAgents, as: asFlags},
		{name: "task", commands: beforehand, as: asFlags},
		{name: "exclude-task", commands: beforehand, as: asFlags},
		{name: "dataset", commands: beforehand, as: asFlags},
		{name: "metadata", commands: beforehand, as: asFlags},
		{name: "n-tasks", commands: beforehand},
		{name: "sample-seed", commands: beforehand},
		{name: "n-attempts", commands: ofAgents},
		{name: "n-concurrent", commands: beforehand},
		{name: "name", commands: beforehand},
		{name: "jobs-dir", commands: beforehand},
		{name: "env-type", commands: beforehand},
		{name: "set", commands: beforehand, as: asFlags},
		{name: "env", commands: beforehand, as: asOwn},
		{name: "runs", commands: onlyValidate, without: "run has n-attempts"},
		{name: "nop-runs", commands: onlyValidate},
		{name: "task-format", commands: onlyValidate},
		{name: "changed", commands: onlyValidate},
		{name: "output", commands: []string{"merge"}, without: "run has jobs-dir and name"},
		{name: "baseline", commands: withReport, standard: app.GitHubPrefix},
		{name: "baseline-artifact", commands: withReport, standard: app.DefaultBaselineArtifact},
		{name: "baseline-workflow", commands: withReport},
		{name: "junit", commands: withFiles},
		{name: "markdown", commands: withFiles},
		{name: "report-json", commands: withFiles},
		{name: "comment", commands: withReport, standard: "changes"},
	}
	for _, k := range config.GateKeys() {
		inputs = append(inputs, input{name: k.Flag(), commands: withReport})
	}
	return append(inputs,
		input{name: "github-token", commands: actionCommands, as: asOwn},
		input{name: "allow-fork-checkout", commands: actionCommands, as: asOwn, standard: "false"},
	)
}

// set are the inputs of a step.
type set struct {
	command string
	values  map[string]string // those that are not empty
	env     map[string]string // variables for the job file
}

func (s set) value(name string) string { return s.values[name] }

// readInputs reads and checks what the workflow set. The runner checks nothing: neither names nor that required ones
// are there.
func (v *invocation) readInputs() (set, error) {
	if err := v.knownInputs(); err != nil {
		return set{}, err
	}
	reader := githubactions.New(githubactions.WithGetenv(v.getenv))
	s := set{values: map[string]string{}}
	for _, in := range actionInputs() {
		if value := reader.GetInput(in.name); value != "" {
			s.values[in.name] = value
		}
	}
	s.command = s.values["command"]
	if s.command == "" {
		s.command = "run"
	}
	if !slices.Contains(actionCommands, s.command) {
		return s, usage("the input command is %q: want %s", s.command, strings.Join(actionCommands, ", "))
	}
	if allow := s.value("allow-fork-checkout"); allow != "" && allow != "true" && allow != "false" {
		return s, usage("the input allow-fork-checkout is %q: want true or false", allow)
	}
	var err error
	s.env, err = variables(s.value("env"))
	return s, err
}

// variable is the name of one.
var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// variables reads lines of the form NAME=value. They are secrets, so an error shows none of them.
func variables(text string) (map[string]string, error) {
	vars := map[string]string{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		name, value, ok := strings.Cut(line, "=")
		if line != "" && (!ok || !variable.MatchString(name)) {
			return nil, usage("line %d of the input env is not of the form NAME=value", number)
		}
		if line != "" {
			vars[name] = value
		}
	}
	return vars, nil
}

// knownInputs refuses misspelt ones, of which the runner only warns.
func (v *invocation) knownInputs() error {
	if v.Environ == nil {
		return nil
	}
	var names []string
	for _, in := range actionInputs() {
		names = append(names, in.name)
	}
	var unknown []string
	for _, variable := range v.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		name, isInput := strings.CutPrefix(name, "INPUT_")
		if name = strings.ToLower(name); !isInput || slices.Contains(names, name) {
			continue
		}
		if hint := diag.DidYouMean(name, names); hint != "" {
			name += " (" + hint + ")"
		}
		unknown = append(unknown, name)
	}
	slices.Sort(unknown)
	if len(unknown) > 0 {
		return usage("the Action has no such input: %s", strings.Join(unknown, ", "))
	}
	return nil
}

// commandLine returns the command line that the inputs stand for.
func (s set) commandLine() ([]string, error) {
	flags := []string{s.command}
	if s.command == "validate" {
		flags = append(flags, "--run")
	}
	var arguments []string
	for _, in := range actionInputs() {
		value := s.value(in.name)
		if value == "" {
			continue
		}
		if !slices.Contains(in.commands, s.command) {
			if value == in.standard {
				continue
			}
			return nil, s.useless(in)
		}
		if s.value("shard") != "" && in.name == "comment" {
			continue // the whole job is commented on, when its shards are merged
		}
		switch in.as {
		case asOwn:
		case asArgument:
			arguments = append(arguments, value)
		case asPaths:
			arguments = append(arguments, inputLines(value)...)
		case asFlags:
			for _, line := range inputLines(value) {
				flags = append(flags, "--"+in.name+"="+line)
			}
		default:
			if strings.Contains(value, "\n") {
				return nil, usage("the input %s has several lines, and wants one", in.name)
			}
			flags = append(flags, "--"+in.name+"="+value)
		}
	}
	if len(arguments) == 0 {
		return nil, s.missing()
	}
	return slices.Concat(flags, []string{"--"}, arguments), nil
}

func (s set) missing() error {
	if s.command == "validate" {
		return usage("the input job is missing: validate needs a directory of tasks, or a job file, as in job: evals")
	}
	if slices.Contains(beforehand, s.command) {
		return usage("the input job is missing: %s needs a job file, as in job: evals/job.yaml", s.command)
	}
	return usage("the input paths is missing: %s needs directories with results, as in paths: shards", s.command)
}

func (s set) useless(in input) error {
	why := fmt.Sprintf("it is for %s", strings.Join(in.commands, ", "))
	if in.without != "" {
		why += "; " + in.without
	}
	return usage("command: %s has no use for the input %s (%s)", s.command, in.name, why)
}

// written returns the files and directories that the inputs name as places to write to.
func (s set) written() []string {
	var paths []string
	switch s.command {
	case "merge":
		paths = append(paths, "jobs")
	case "report":
		paths = append(paths, inputLines(s.value("paths"))...)
	}
	for _, name := range []string{"output", "junit", "markdown", "report-json"} {
		if path := s.value(name); path != "" {
			paths = append(paths, filepath.Clean(path))
		}
	}
	return paths
}

// inputLines returns the lines of an input that are not empty.
func inputLines(value string) []string {
	var out []string
	for line := range strings.Lines(value) {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return out
}
