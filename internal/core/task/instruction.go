package task

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"regexp"
	"strings"

	"github.com/org/rollout-action/internal/core/task/taskdir"
)

// canary matches a line that marks a benchmark's text so that it can be found in training data. It
// is not part of the instruction. Source: Harbor 0.22, src/harbor/models/task/task.py.
var canary = regexp.MustCompile(`(?i)^(<!--.*canary.*-->|#.*canary.*)$`)

// Instruction returns the agent's instruction: instruction.md, or that of task.yaml. For tasks
// written for Harbor, it leaves out canary lines at the beginning and the blank lines after them.
// That of a task with steps has the instructions of all steps, each below a line with its name.
func (t *Task) Instruction() ([]byte, error) {
	if t.bench != nil {
		return []byte(t.bench.Instruction), nil
	}
	if steps := t.Steps(); len(steps) > 0 {
		return instructions(steps)
	}
	text, err := fs.ReadFile(t.FS, taskdir.Join(cmp.Or(t.step, "."), instructionFile))
	if err != nil || t.Format != FormatHarbor {
		return text, err
	}
	return []byte(withoutCanary(string(text))), nil
}

func instructions(steps []*Task) ([]byte, error) {
	var all bytes.Buffer
	for i, step := range steps {
		text, err := step.Instruction()
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&all, "# Step %d of %d: %s\n\n%s\n", i+1, len(steps), step.StepName(), text)
	}
	return all.Bytes(), nil
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
