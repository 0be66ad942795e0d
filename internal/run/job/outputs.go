package job

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/moby/sys/atomicwriter"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/bounded"
	"github.com/org/rollout-action/internal/lib/nofollow"
	"github.com/org/rollout-action/internal/lib/redact"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/run/trial"
)

// outputs writes outputs.jsonl while a job runs: a line for each trial, in the order in which the
// trials end. Rollout reads no result from it. A nil outputs writes nothing; a Tree that was not
// made by this package has one.
type outputs struct {
	dir  string // of the job
	plan result.Plan
	// prompt returns the instruction of a task, and nil if it is not known.
	prompt func(dataset, task string) []result.Message

	mu   sync.Mutex
	file *os.File
	size int64 // of whole lines
}

// openOutputs creates the file of a new job.
func openOutputs(dir string, plan result.Plan) (*outputs, error) {
	f, err := os.OpenFile(filepath.Join(dir, result.OutputsFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	return &outputs{dir: dir, plan: plan, file: f}, nil
}

// repairOutputs rewrites the file of a resumed job, with a line for each of the kept results, and
// opens it. So lost lines and a torn last line do not matter.
func repairOutputs(dir string, plan result.Plan, kept []result.Trial, prompt func(dataset, task string) []result.Message) (*outputs, error) {
	path := filepath.Join(dir, result.OutputsFile)
	flags := os.O_WRONLY | os.O_APPEND | os.O_CREATE
	if len(kept) == 0 {
		flags |= os.O_TRUNC // an atomic writer without any write would leave the old file
	} else {
		w, err := atomicwriter.New(path, 0o644)
		if err != nil {
			return nil, err
		}
		if err := errors.Join(WriteOutputs(w, dir, plan, result.Whole(kept), prompt), w.Close()); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(path, flags|syscall.O_NOFOLLOW, 0o644)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &outputs{dir: dir, plan: plan, file: f, size: info.Size()}, nil
}

// add writes a trial's line. After an error no part of it is left.
func (o *outputs) add(t result.Trial) error {
	if o == nil {
		return nil
	}
	var prompt []result.Message
	if o.prompt != nil {
		prompt = o.prompt(t.Dataset, t.Task)
	}
	line, err := lineOf(o.dir, o.plan, t, prompt)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, err := o.file.Write(line); err != nil {
		return errors.Join(err, o.file.Truncate(o.size)) // a partial line would merge with the next one
	}
	o.size += int64(len(line))
	return nil
}

// lineOf returns the line of a trial. It omits a record that cannot be read, and notes that in the
// line: the trial's directory has the same content.
func lineOf(dir string, plan result.Plan, t result.Trial, prompt []result.Message) ([]byte, error) {
	o := result.OutputOf(plan, t, prompt)
	if err := AddConversation(&o, dir, t, MaxOutputConversation); err != nil {
		o.ConversationOmitted = "the record cannot be read"
	}
	return OutputLine(o)
}

// OutputLine returns an output as one line of JSON with its line break. It is safe to print.
func OutputLine(o result.Output) ([]byte, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(o); err != nil {
		return nil, err
	}
	return []byte(untrusted.JSON(b.String())), nil
}

// from sets the function that returns tasks' instructions.
func (o *outputs) from(prompt func(dataset, task string) []result.Message) {
	if o != nil {
		o.prompt = prompt
	}
}

// Instructions returns a function that returns the prompt of each of the specs' tasks, without
// secrets. It reads the instruction again for each trial: a job may have more of them than fit into
// memory.
func Instructions(specs []trial.Spec, redactor *redact.Redactor) func(dataset, name string) []result.Message {
	type id struct{ dataset, task string }
	tasks := map[id]*task.Task{}
	for _, s := range specs {
		tasks[id{s.Key.Dataset, s.Key.Task}] = s.Task
	}
	return func(dataset, name string) []result.Message {
		return Instruction(tasks[id{dataset, name}], redactor)
	}
}

// Instruction returns a task's instruction as a prompt, without secrets, and nil if it cannot be
// read.
func Instruction(t *task.Task, redactor *redact.Redactor) []result.Message {
	if t == nil || t.FS == nil {
		return nil
	}
	text, err := t.Instruction()
	if err != nil {
		return nil
	}
	// The limit is larger than that of PromptOf, so that the redactor sees every secret whole.
	return result.PromptOf(string(redactor.Bytes(text[:min(len(text), 2*result.MaxPrompt)])))
}

// WriteOutputs writes the lines of an outputs.jsonl, in the order in which the trials ended. prompt
// returns tasks' instructions. dir contains the trials' directories.
func WriteOutputs(w io.Writer, dir string, plan result.Plan, trials result.Trials, prompt func(dataset, task string) []result.Message) error {
	type end struct {
		sec     int64
		nsec, i int32
	}
	order := make([]end, trials.Len())
	for i := range order {
		ended := trials.At(i).Timestamps.EndedAt
		order[i] = end{ended.Unix(), int32(ended.Nanosecond()), int32(i)}
	}
	slices.SortFunc(order, func(a, b end) int {
		if c := cmp.Or(cmp.Compare(a.sec, b.sec), cmp.Compare(a.nsec, b.nsec)); c != 0 {
			return c
		}
		x, _ := trials.Key(int(a.i))
		y, _ := trials.Key(int(b.i))
		return x.Compare(y)
	})
	buffered := bufio.NewWriterSize(w, 1<<18)
	for _, e := range order {
		t := trials.At(int(e.i))
		line, err := lineOf(dir, plan, *t, prompt(t.Dataset, t.Task))
		if err != nil {
			return err
		}
		if _, err := buffered.Write(line); err != nil {
			return err
		}
	}
	return buffered.Flush()
}

// Prompts holds the instructions of tasks, by result.ExampleID.
type Prompts map[int64][]result.Message

// maxPrompts limits the prompts that are kept of a file, in bytes. 12,000 tasks of the usual length
// need a fifth of it.
const maxPrompts = 256 << 20

// maxLine limits a line that prompts are read from, in bytes: a conversation, whose control
// characters OutputLine escapes once more, a prompt and the rest.
const maxLine = 8 * MaxOutputConversation

// Of returns a task's prompt, and nil if it is not known.
func (p Prompts) Of(dataset, task string) []result.Message { return p[result.ExampleID(dataset, task)] }

// Read adds the prompts in an outputs.jsonl. The file is hostile: lines that Rollout did not write
// are left out, and at most maxPrompts bytes are kept.
func (p Prompts) Read(path string) error {
	f, err := nofollow.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := untrusted.NewLineReader(f, maxLine)
	for kept := 0; kept < maxPrompts; {
		line, err := lines.Next()
		if errors.Is(err, io.EOF) {
			return nil // a last line without an end is torn
		}
		if err != nil {
			return err
		}
		if id, ok := exampleID(line); ok && len(line) <= maxLine && p[id] == nil {
			if prompt := promptIn(line, id); prompt != nil {
				p[id] = prompt
				kept += len(prompt[0].Content)
			}
		}
	}
	return nil
}

// exampleID returns the number that a line begins with. Most lines need not be read further.
func exampleID(line []byte) (int64, bool) {
	rest, ok := bytes.CutPrefix(line, []byte(`{"example_id":`))
	number, _, comma := bytes.Cut(rest[:min(len(rest), 20)], []byte(","))
	id, err := strconv.ParseInt(string(number), 10, 64)
	return id, ok && comma && err == nil
}

// promptIn returns the prompt in a line, and nil if it has none or Rollout did not write the line.
func promptIn(line []byte, id int64) []result.Message {
	var said struct {
		Dataset string           `json:"dataset"`
		Task    string           `json:"task"`
		Prompt  []result.Message `json:"prompt"`
	}
	if bounded.UnmarshalStrict(line, &said) != nil || len(said.Prompt) != 1 || result.ExampleID(said.Dataset, said.Task) != id {
		return nil
	}
	return result.PromptOf(said.Prompt[0].Content)
}
