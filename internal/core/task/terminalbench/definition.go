package terminalbench

import (
	"io/fs"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/org/rollout-action/internal/core/task/testoutput"
	"github.com/org/rollout-action/internal/lib/diag"
)

// The files of a task, all at its root.
const (
	ConfigFile   = "task.yaml"
	ComposeFile  = "docker-compose.yaml"
	Dockerfile   = "Dockerfile"
	TestScript   = "run-tests.sh"
	TestsDir     = "tests"
	SolutionFile = "solution.sh"
	CommandsFile = "solution.yaml"
)

// Definition is what a task's files say. Defaults are filled in.
// Source: terminal-bench 0.2.18, handlers/trial_handler.py.
type Definition struct {
	Instruction string
	Parser      string  // one of testoutput.Parsers
	AgentSec    float64 // that the agent may take
	TestSec     float64 // that run-tests.sh may take
	// SameShell: the tests run as the agent's user, and not as root.
	SameShell bool
	Metadata  map[string]any // task.yaml without the instruction
	Service   Service
}

// Defaults of terminal-bench.
const (
	defaultAgentSec = 360
	defaultTestSec  = 60
)

// maxSeconds is a year.
const maxSeconds = 366 * 24 * 60 * 60

// Is reports whether the directory of fsys looks like a task: it has a task.yaml and one of the
// files that only such tasks have with it.
func Is(fsys fs.FS) bool {
	return isFile(fsys, ConfigFile) && slices.ContainsFunc([]string{ComposeFile, Dockerfile, TestScript, SolutionFile, CommandsFile}, func(name string) bool {
		return isFile(fsys, name)
	})
}

func isFile(fsys fs.FS, name string) bool {
	info, err := fs.Stat(fsys, name)
	return err == nil && info.Mode().IsRegular()
}

// Read reads a task. The files of the problems are relative to the task.
func Read(fsys fs.FS) (Definition, diag.List) {
	d := Definition{Parser: testoutput.Pytest, AgentSec: defaultAgentSec, TestSec: defaultTestSec}
	f := &file{name: ConfigFile}
	if root := f.read(fsys, "it is the task's instruction and its limits"); root != nil {
		d.read(f, root)
	}
	c := &file{name: ComposeFile}
	d.Service = readService(fsys, c)
	return d, slices.Concat(f.problems, c.problems)
}

// keys lists the keys of task.yaml that have a meaning for a trial.
var keys = []string{"instruction", "parser_name", "max_agent_timeout_sec", "max_test_timeout_sec", "run_tests_in_same_shell", "disable_asciinema"}

// read reads the keys of task.yaml. Others are free data, as they are for terminal-bench.
func (d *Definition) read(f *file, root *yaml.Node) {
	var descriptions *yaml.Node
	found := false
	for key, value := range f.fields(root) {
		switch key.Value {
		case "instruction":
			d.Instruction, found = f.text(value, key.Value), true
		case "descriptions":
			descriptions = value
		case "parser_name":
			d.Parser = f.text(value, key.Value)
			if !slices.Contains(testoutput.Parsers, d.Parser) {
				f.add(value, "the parsers are "+list(testoutput.Parsers), "parser_name %q is unknown", short(d.Parser))
			}
		case "max_agent_timeout_sec":
			f.seconds(value, key.Value, &d.AgentSec)
		case "max_test_timeout_sec":
			f.seconds(value, key.Value, &d.TestSec)
		case "run_tests_in_same_shell":
			d.SameShell = f.truth(value, key.Value)
		case "disable_asciinema": // nothing is recorded
		default:
			if hint := diag.DidYouMean(key.Value, keys); hint != "" {
				f.warn(key, hint, "unknown key %q has no effect", short(key.Value))
			}
		}
	}
	if !found && descriptions != nil {
		d.Instruction, found = base(descriptions)
	}
	if !found {
		f.add(root, "", `"instruction" is missing`)
	}
	if root.Decode(&d.Metadata) == nil {
		delete(d.Metadata, "instruction")
		delete(d.Metadata, "descriptions")
	}
}

// base returns the instruction of tasks that are older than the key: the description with the key
// base.
func base(descriptions *yaml.Node) (string, bool) {
	var all []struct {
		Key         string `yaml:"key"`
		Description string `yaml:"description"`
	}
	if descriptions.Decode(&all) != nil {
		return "", false
	}
	for _, one := range all {
		if one.Key == "base" {
			return one.Description, true
		}
	}
	return "", false
}
