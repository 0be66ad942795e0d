package task

import (
	"io/fs"
	"regexp"
	"strings"
)

// canary matches a line that marks a benchmark's text so that it can be found in training data. It
// is not part of the instruction. Source: Harbor 0.22, src/harbor/models/task/task.py.
var canary = regexp.MustCompile(`(?i)^(<!--.*canary.*-->|#.*canary.*)$`)

// Instruction returns the agent's instruction: instruction.md, or that of task.yaml. For tasks
// written for Harbor, it leaves out canary lines at the beginning and the blank lines after them.
func (t *Task) Instruction() ([]byte, error) {
	if t.bench != nil {
		return []byte(t.bench.Instruction), nil
	}
	text, err := fs.ReadFile(t.FS, instructionFile)
	if err != nil || t.Format != FormatHarbor {
		return text, err
	}
	return []byte(withoutCanary(string(text))), nil
}

func withoutCanary(text string) string {
	lines := strings.Split(text, "\n")
	n := 0
	for n < len(lines) && canary.MatchString(strings.TrimSpace(lines[n])) {
		n++
	}
	for n < len(lines) && strings.TrimSpace(lines[n]) == "" {
		n++
	}
	return strings.Join(lines[n:], "\n")
}
