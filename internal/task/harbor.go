package task

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// harborKeys are keys of task.toml that Harbor has and that nobody needs to write for Rollout, the clearest first.
// Source: Harbor 0.22, src/harbor/models/task/config.py.
var harborKeys = []struct{ table, key string }{
	{"", "schema_version"}, {"", "steps"}, {"", "multi_step_reward_strategy"}, {"task", "name"},
	{"verifier", "environment_mode"}, {"verifier", "collect"}, {"verifier", "network_mode"}, {"agent", "network_mode"},
	{"environment", "network_mode"}, {"environment", "allow_internet"}, {"environment", "mcp_servers"}, {"environment", "skills_dir"},
	{"environment", "os"}, {"environment", "gpus"}, {"environment", "gpu_types"}, {"environment", "tpu"},
}

// harborKey is the first of harborKeys that a task.toml has; "" if it has none.
func harborKey(root map[string]any) string {
	for _, k := range harborKeys {
		values, name := root, k.key
		if k.table != "" {
			values, _ = root[k.table].(map[string]any)
			name = k.table + "." + k.key
		}
		if _, there := values[k.key]; there {
			return name
		}
	}
	return ""
}

// harborCanary marks the files of benchmarks that are published for Harbor.
var harborCanary = regexp.MustCompile(`(?i)\b(?:harbor|terminal-bench)-canary\b`)

// atSolution is a path below /solution, where Harbor has what Rollout has at /oracle.
var atSolution = regexp.MustCompile(`(?:^|[\s"'=:;&|(<>@])/solution(?:/|\b)`)

// maxSignRead is how many bytes of a file are looked at for signs of Harbor.
const maxSignRead = 256 << 10

// HarborSign says what in the task's files tells that it was written for Harbor, as "task.toml has schema_version"; "" if
// nothing does. It looks at what Harbor's tasks have and Rollout's have no use for: keys of task.toml, the canary of published
// benchmarks in task.toml, instruction.md and test.sh, and a solution that expects itself at /solution. It reads files.
func (t *Task) HarborSign() string {
	if t.Missing {
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
		return solutionScript + " names /solution"
	}
	return ""
}

// uncommented is a script without the lines that are comments.
func uncommented(script []byte) string {
	return strings.Join(slices.DeleteFunc(strings.Split(string(script), "\n"), func(line string) bool {
		return strings.HasPrefix(strings.TrimSpace(line), "#")
	}), "\n")
}

// beginning is what a file begins with; nothing if it cannot be read.
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
