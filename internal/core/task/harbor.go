package task

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/lib/fields"
)

// harborKeys lists keys of task.toml that only Harbor uses, the clearest sign first.
// Source: Harbor 0.22, src/harbor/models/task/config.py.
var harborKeys = []fields.Path{
	{"schema_version"}, {"task", "name"},
	{"verifier", "network_mode"}, {"agent", "network_mode"},
	{"environment", "network_mode"}, {"environment", "allow_internet"},
	{"environment", "os"}, {"environment", "tpu"},
}

// harborKey returns the first of harborKeys that a task.toml has, or "".
func harborKey(root *fields.Node) string {
	for _, p := range harborKeys {
		if root.Given(p...) != nil {
			return p.String()
		}
	}
	return ""
}

// harborCanary matches the mark in the files of benchmarks that are published for Harbor.
var harborCanary = regexp.MustCompile(`(?i)\b(?:harbor|terminal-bench)-canary\b`)

// atSolution matches a path below /solution, Harbor's name for Rollout's /oracle.
var atSolution = regexp.MustCompile(`(?:^|[\s"'=:;&|(<>@])` + environment.SolutionDir + `(?:/|\b)`)

// maxSignRead is the number of bytes of a file that HarborSign reads.
const maxSignRead = 256 << 10

// HarborSign returns why the task seems to be written for Harbor, such as "task.toml has
// schema_version", or "". It looks for features that only Harbor's tasks have: keys of task.toml,
// the canary of published benchmarks in task.toml, instruction.md and test.sh, and a solution that
// expects to be in /solution. It reads files.
func (t *Task) HarborSign() string {
	if t.Missing || t.bench != nil {
		return ""
	}
	if key := t.variables.harborKey; key != "" {
		return configFile + " has " + key
	}
	for _, name := range []string{configFile, instructionFile, testsScript} {
		if harborCanary.Match(t.beginning(name)) {
			return fmt.Sprintf("%s has the canary of a benchmark for Harbor", name)
		}
	}
	if script := uncommented(t.beginning(solutionScript)); atSolution.MatchString(script) {
		return solutionScript + " names " + environment.SolutionDir
	}
	return ""
}

// uncommented returns a script without its comment lines.
func uncommented(script []byte) string {
	return strings.Join(slices.DeleteFunc(strings.Split(string(script), "\n"), func(line string) bool {
		return strings.HasPrefix(strings.TrimSpace(line), "#")
	}), "\n")
}

// beginning returns the first bytes of a file, or nil if it cannot be read.
func (t *Task) beginning(name string) []byte {
	f, err := t.FS.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSignRead))
	if err != nil {
		return nil
	}
	return text
}
