package prompt

import (
	"bytes"
	"encoding/json"
	"io"
	"path"

	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/bounded"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// Bounds of the file with the instructions. A prompt there may take six times its bytes, as JSON.
const (
	maxScanned     = 64 << 20
	maxBeginning   = 7 * result.MaxPrompt
	maxInstruction = 16 << 10
)

// instructions finds the instructions that agents received. The tasks' own files may have changed
// since, and are not redacted.
type instructions struct {
	in   report.Input
	read bool
	text map[[2]string]string // by dataset and task
}

// instruction quotes what the agent was asked.
func (p *Prompts) instruction(t result.Trial, size int) string {
	if text := p.instructions.of(t); text != "" {
		return quoteText(text, size)
	}
	if record, err := report.Trajectory(p.in, path.Join(t.Dir(), result.ATIFFile)); err == nil {
		for _, step := range record.Steps {
			if step.Source == "user" && step.Message != "" {
				const lead = "What the model was told first, because the instruction was not kept:\n\n"
				if quoted := quoteText(step.Message, size-len(lead)); quoted != "" {
					return lead + quoted
				}
			}
		}
	}
	return "The instruction was not kept: see `instruction.md` of the task.\n"
}

func (i *instructions) of(t result.Trial) string {
	if file, size, err := report.Open(i.in, path.Join(t.Dir(), result.JudgeInputsDir, result.JudgeInstructionFile)); err == nil {
		defer file.Close()
		if text, err := io.ReadAll(io.LimitReader(file, min(size, maxInstruction))); err == nil {
			return string(text)
		}
	}
	if !i.read {
		i.read, i.text = true, map[[2]string]string{}
		i.scan(t.Key)
	}
	return i.text[[2]string{t.Dataset, t.Task}]
}

// scan reads the beginnings of the lines of outputs.jsonl, where the instructions are, until it has
// those of all tasks of the plan and of key.
func (i *instructions) scan(key result.Key) {
	file, _, err := report.Open(i.in, result.OutputsFile)
	if err != nil {
		return
	}
	defer file.Close()
	left := map[[2]string]bool{{key.Dataset, key.Task}: true} // what a hostile file has of others is not kept
	for _, t := range i.in.Plan.Tasks {
		left[[2]string{t.Dataset, t.Task}] = true
	}
	lines := untrusted.NewLineReader(io.LimitReader(file, maxScanned), maxBeginning)
	for err == nil && len(left) > 0 {
		var line []byte
		line, err = lines.Next()
		dataset, task, text := instructionIn(line)
		if id := [2]string{dataset, task}; text != "" && left[id] {
			i.text[id] = untrusted.Cut(text, maxInstruction)
			delete(left, id)
		}
	}
}

// instructionIn returns the task and its instruction from the beginning of a line, which may be cut
// after them.
func instructionIn(line []byte) (dataset, task, text string) {
	dec := json.NewDecoder(bytes.NewReader(line))
	if token, err := dec.Token(); err != nil || token != json.Delim('{') {
		return "", "", ""
	}
	for {
		key, err := dec.Token()
		if err != nil {
			return "", "", ""
		}
		var raw json.RawMessage
		var to any = &raw
		switch key {
		case "dataset":
			to = &dataset
		case "task":
			to = &task
		}
		if err := dec.Decode(to); err != nil {
			return "", "", ""
		}
		var messages []result.Message
		if key == "prompt" && bounded.Unmarshal(raw, &messages) == nil && len(messages) > 0 {
			return dataset, task, messages[0].Content
		}
	}
}
