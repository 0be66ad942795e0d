// Package foreign recognises files of other evaluation tools, for one sentence with the way out in
// place of many errors.
package foreign

import (
	"bytes"
	"path"
	"regexp"
	"strings"
)

// MaxHead is the number of bytes of a file that File needs at most.
const MaxHead = 256 << 10

// Kind is a kind of file of another tool.
type Kind struct {
	Is     string // follows "this is": "a configuration of promptfoo, …"
	WayOut string // a hint
}

// kind is a kind with the files that are of it.
type kind struct {
	Kind
	// names matches the base names of files of the kind, and all parts are in each of them.
	names *regexp.Regexp
	parts []*regexp.Regexp
}

var (
	jsonLines = regexp.MustCompile(`(?i)\.(jsonl|ndjson|json)$`)
	settings  = regexp.MustCompile(`(?i)\.(ya?ml|json)$`)
	python    = regexp.MustCompile(`(?i)\.py$`)
)

// kinds lists the kinds, the narrowest first. Sources: the data of SWE-bench on Hugging Face and
// its harness, promptfoo's configuration reference, and the documentation of Inspect, verifiers and
// DeepEval.
var kinds = []kind{
	{
		Kind{"a list of predictions for SWE-bench, not a job file", "Rollout runs agents itself: name the agent in a job file (rollout init), with tasks of SWE-bench from a registry, such as swebench-verified"},
		jsonLines, []*regexp.Regexp{regexp.MustCompile(`"instance_id"\s*:`), regexp.MustCompile(`"model_patch"\s*:`)},
	},
	{
		Kind{"a list of instances of SWE-bench, not a job file", "registries have them as tasks, such as swebench-verified (docs/registries.md); rollout mine makes such tasks of a repository's own history"},
		jsonLines, []*regexp.Regexp{regexp.MustCompile(`"instance_id"\s*:`), regexp.MustCompile(`"(base_commit|FAIL_TO_PASS|test_patch|problem_statement)"\s*:`)},
	},
	{
		Kind{"a configuration of promptfoo, which asserts on single answers of models", "Rollout runs agents on tasks: rollout new task makes one, and a judge takes the place of llm-rubric (docs/judges.md)"},
		settings, []*regexp.Regexp{regexp.MustCompile(`(?m)^(["']?prompts["']?\s*:|\s+"prompts"\s*:)`), regexp.MustCompile(`(?m)^(["']?(providers|targets)["']?\s*:|\s+"(providers|targets)"\s*:)`)},
	},
	{
		Kind{"a task of Inspect, a program that only Inspect runs", "make a task of it (rollout new task): the sample's input is instruction.md, its sandbox is environment/, and its scorer is tests/test.sh"},
		python, []*regexp.Regexp{regexp.MustCompile(`(?m)^\s*(from|import)\s+inspect_ai\b`)},
	},
	{
		Kind{"an environment of verifiers, a program that only verifiers runs", "make tasks of its data set (rollout new task): the rubric's functions go into tests/test.sh, which writes the reward"},
		python, []*regexp.Regexp{regexp.MustCompile(`(?m)^\s*(from|import)\s+verifiers\b`)},
	},
	{
		Kind{"a test of DeepEval, which measures single answers of models", "Rollout runs agents on tasks: rollout new task makes one, and judges take the place of its metrics (docs/judges.md)"},
		python, []*regexp.Regexp{regexp.MustCompile(`(?m)^\s*(from|import)\s+deepeval\b`)},
	},
}

// File returns the kind of a file of another tool. name is its path, with / or the system's
// separator, and head is its beginning. ok is false if it is none that is known.
func File(name string, head []byte) (of Kind, ok bool) {
	name = path.Base(strings.ReplaceAll(name, `\`, "/"))
	head = head[:min(len(head), MaxHead)]
	for _, k := range kinds {
		if !k.names.MatchString(name) {
			continue
		}
		text := head
		if strings.HasSuffix(strings.ToLower(name), "l") && k.names == jsonLines { // one line has it all
			text, _, _ = bytes.Cut(bytes.TrimLeft(head, "\ufeff \t\r\n"), []byte("\n"))
		}
		found := true
		for _, part := range k.parts {
			found = found && part.Match(text)
		}
		if found {
			return k.Kind, true
		}
	}
	return Kind{}, false
}
