package export

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/org/rollout-action/internal/job"
	"github.com/org/rollout-action/internal/result"
)

// Formats are what can be written.
//
//	outputs  a result.Output on each line, as in outputs.jsonl, with advantages
//	jsonl    a flat object on each line: every Column
//	csv      the same as a table (RFC 4180), with the names of the columns first
var Formats = []string{"outputs", "jsonl", "csv"}

// Options say what is exported.
type Options struct {
	Dir    string // of the job, also of one that was cancelled or killed, that still runs, or of a shard
	Format string // one of Formats
	// Instruction is the prompt of a planned task that no outputs.jsonl tells; nil for one that is not known. It may be nil.
	Instruction func(result.PlannedTask) []result.Message

	atATime int // trials that are held in memory, unless one group has more; 0 is chunk
}

// Report is what was written, and what was not.
type Report struct {
	Trials     int     // that were written
	Missing    int     // planned ones without a result
	Unreadable []error // the first results that cannot be read
	// NoPrompt is how many tasks' instructions are not known. Only the format "outputs" has them.
	NoPrompt int
}

// chunk is as many trials as keep the disk and all processors busy.
const chunk = 2000

// Write writes the trials of a job that have a result, sorted by agent, dataset, task and attempt. It holds few of them in
// memory, however many there are. The error is fs.ErrNotExist where the folder is no job's.
func Write(ctx context.Context, w io.Writer, opts Options) (Report, error) {
	plan, err := result.ReadPlan(opts.Dir)
	if err != nil {
		return Report{}, err
	}
	buffered := bufio.NewWriterSize(w, 1<<18)
	e := &exporter{Options: opts, plan: plan}
	switch opts.Format {
	case "outputs":
		if e.rows, err = newOutputs(buffered, opts, plan); err != nil {
			return Report{}, err
		}
	case "jsonl":
		e.rows = jsonRows{buffered}
	case "csv":
		if e.rows, err = newTable(buffered); err != nil {
			return Report{}, err
		}
	default:
		return Report{}, fmt.Errorf("there is no format %q", opts.Format)
	}
	if err := e.all(ctx); err != nil {
		return e.report, err
	}
	e.report.NoPrompt, err = e.rows.end()
	return e.report, errors.Join(err, buffered.Flush())
}

// rows is one format.
type rows interface {
	row(row) error
	// end writes what is left, and says how many tasks have no prompt.
	end() (noPrompt int, err error)
}

// row is one trial on its way out.
type row struct {
	plan      *result.Plan
	trial     *result.Trial
	advantage *result.Advantage // nil: the group is not complete
}

type exporter struct {
	Options
	plan   result.Plan
	rows   rows
	report Report
}

// all goes through the trials, a few whole groups at a time.
func (e *exporter) all(ctx context.Context) error {
	planned := map[result.Key]int{} // attempts of each group, those of other shards too
	for _, k := range e.plan.Trials {
		planned[groupOf(k)]++
	}
	keys := slices.SortedFunc(slices.Values(e.plan.Own()), result.Key.Compare)
	for len(keys) > 0 {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		n := min(cmp.Or(e.atATime, chunk), len(keys))
		for n < len(keys) && groupOf(keys[n]) == groupOf(keys[n-1]) {
			n++
		}
		if err := e.some(slices.Compact(slices.Clone(keys[:n])), planned); err != nil {
			return err
		}
		keys = keys[n:]
	}
	return e.confirmations()
}

// confirmations exports the attempts that confirm tasks which look broken. They are in no group, so they have no advantage.
func (e *exporter) confirmations() error {
	trials, unreadable := result.ReadConfirmations(e.Dir, e.plan)
	e.report.Unreadable = append(e.report.Unreadable, unreadable...)
	for i := range trials {
		if err := e.rows.row(row{plan: &e.plan, trial: &trials[i]}); err != nil {
			return err
		}
		e.report.Trials++
	}
	return nil
}

func groupOf(k result.Key) result.Key {
	k.Attempt = 0
	return k
}

// some reads and writes the trials of whole groups.
func (e *exporter) some(keys []result.Key, planned map[result.Key]int) error {
	trials, unreadable := result.ReadTrials(e.Dir, keys)
	e.report.Missing += len(keys) - len(trials) - len(unreadable)
	e.report.Unreadable = append(e.report.Unreadable, unreadable...)
	for len(trials) > 0 {
		n := 1
		for n < len(trials) && groupOf(trials[n].Key) == groupOf(trials[0].Key) {
			n++
		}
		advantages := advantagesOf(trials[:n], planned[groupOf(trials[0].Key)])
		for i := range trials[:n] {
			r := row{plan: &e.plan, trial: &trials[i]}
			if advantages != nil {
				r.advantage = &advantages[i]
			}
			if err := e.rows.row(r); err != nil {
				return err
			}
			e.report.Trials++
		}
		trials = trials[n:]
	}
	return nil
}

// advantagesOf are the advantages of a group; nil if not all of its planned attempts have a reward, because the mean of
// those that are left would not be the group's.
func advantagesOf(group []result.Trial, planned int) []result.Advantage {
	if len(group) != planned {
		return nil
	}
	rewards := make([]float64, len(group))
	for i, t := range group {
		if t.Reward == nil {
			return nil
		}
		rewards[i] = *t.Reward
	}
	return result.Advantages(rewards)
}

// outputs is the format of outputs.jsonl.
type outputs struct {
	w           io.Writer
	prompts     job.Prompts
	tasks       map[int64]result.PlannedTask
	instruction func(result.PlannedTask) []result.Message
	none        map[int64]bool // tasks whose prompt was looked for in vain
}

func newOutputs(w io.Writer, opts Options, plan result.Plan) (*outputs, error) {
	o := &outputs{w: w, prompts: job.Prompts{}, tasks: map[int64]result.PlannedTask{}, instruction: opts.Instruction, none: map[int64]bool{}}
	for _, t := range plan.Tasks {
		o.tasks[result.ExampleID(t.Dataset, t.Task)] = t
	}
	err := o.prompts.Read(filepath.Join(opts.Dir, result.OutputsFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the instructions in %s: %w", result.OutputsFile, err)
	}
	return o, nil
}

func (o *outputs) row(r row) error {
	out := result.OutputOf(*r.plan, *r.trial, o.prompt(r.trial))
	if r.advantage != nil {
		out.Advantage, out.AdvantageNormalized = &r.advantage.Plain, &r.advantage.Normalized
	}
	line, err := job.OutputLine(out)
	if err != nil {
		return err
	}
	_, err = o.w.Write(line)
	return err
}

// prompt is the instruction of a trial's task.
func (o *outputs) prompt(t *result.Trial) []result.Message {
	id := result.ExampleID(t.Dataset, t.Task)
	if p := o.prompts[id]; p != nil || o.none[id] {
		return p
	}
	if planned, ok := o.tasks[id]; ok && o.instruction != nil {
		if p := o.instruction(planned); p != nil {
			o.prompts[id] = p
			return p
		}
	}
	o.none[id] = true
	return nil
}

func (o *outputs) end() (int, error) { return len(o.none), nil }
