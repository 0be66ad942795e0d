package export

import (
	"archive/tar"
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/job"
)

// Formats lists the formats that Write knows.
//
//	outputs  a result.Output on each line, as in outputs.jsonl, with advantages
//	jsonl    a flat object on each line: every Column
//	csv      the same as a table (RFC 4180), with the names of the columns first
//	sft      a Branch on each line: the conversations of trials with a recorded one
//	atif     a tar archive with DIR/trajectory.json for each of these trials; DIR is relative to
//	         the job's directory
var Formats = []string{"outputs", "jsonl", "csv", "sft", "atif"}

// Options tells Write what to export.
type Options struct {
	Dir    string // of a job, which may have been cancelled or killed, may still run, or may be a shard
	Format string // one of Formats
	// MinReward leaves out trials without a reward or with a lower one. It may be nil.
	MinReward *float64
	// Trainable leaves out trials whose agents are not (result.Trial.Trainable).
	Trainable bool
	// Instruction returns the prompt of a planned task that is not in outputs.jsonl, or nil if it
	// is not known. It may be nil.
	Instruction func(result.PlannedTask) []result.Message

	// Begin is called with the number of trials, and the function that it returns for each that is
	// done. It may be nil.
	Begin func(trials int) (step func())

	atATime int // trials in memory, unless one group has more; 0 means chunk
}

// Report counts the trials that were written and those that were not.
type Report struct {
	Planned    int     // trials that could have been written, confirmation attempts that were made included
	Trials     int     // that were written
	Missing    int     // planned trials without a result
	Unreadable []error // the first results that cannot be read
	Below      int     // trials that MinReward leaves out
	Untrained  int     // trials that Trainable leaves out
	// NoConversation is the number of trials without a recorded conversation, for the formats "sft"
	// and "atif", which leave them out.
	NoConversation int
	TooLong        []string // directories of trials whose conversation is too long for the format; it is left out
	// MissingPrompts is the number of tasks whose instruction is not known. It is 0 but for the
	// format "outputs".
	MissingPrompts int
}

// chunk is enough trials to keep the disk and all processors busy.
const chunk = 2000

// Write writes the trials of a job that have a result, sorted by agent, dataset, task and attempt.
// It holds few of them in memory, however many there are. The error is fs.ErrNotExist if the
// directory is not a job's.
func Write(ctx context.Context, w io.Writer, opts Options) (Report, error) {
	plan, err := result.ReadPlan(opts.Dir)
	if err != nil {
		return Report{}, err
	}
	buffered := bufio.NewWriterSize(w, 1<<18)
	e := &exporter{Options: opts, plan: plan}
	switch opts.Format {
	case "outputs":
		if e.rows, err = newOutputs(buffered, opts, &e.report, plan); err != nil {
			return Report{}, err
		}
	case "jsonl":
		e.rows = jsonRows{buffered}
	case "sft":
		e.rows = &branches{w: buffered, dir: opts.Dir, report: &e.report}
	case "atif":
		e.rows = &archive{w: tar.NewWriter(buffered), dir: opts.Dir, report: &e.report}
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
	e.report.MissingPrompts, err = e.rows.end()
	return e.report, errors.Join(err, buffered.Flush())
}

// WriteFile writes what Write writes to a file: as a whole or not at all. It makes the file's
// directory.
func WriteFile(ctx context.Context, path string, opts Options) (report Report, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return Report{}, err
	}
	draft, err := os.CreateTemp(filepath.Dir(path), ".export-*")
	if err != nil {
		return Report{}, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(draft.Name()))
		}
	}()
	report, err = Write(ctx, draft, opts)
	if err := errors.Join(err, draft.Chmod(0o644), draft.Close()); err != nil {
		return report, err
	}
	return report, os.Rename(draft.Name(), path)
}

// rows writes one format.
type rows interface {
	row(row) error
	// end writes the remaining rows and returns how many tasks have no prompt.
	end() (missingPrompts int, err error)
}

// row is one trial to be written.
type row struct {
	plan      *result.Plan
	trial     *result.Trial
	advantage *result.Advantage // nil if the group is not complete
}

type exporter struct {
	Options
	plan   result.Plan
	rows   rows
	report Report
}

// all writes the trials, a few whole groups at a time.
func (e *exporter) all(ctx context.Context) error {
	planned := map[result.Key]int{} // attempts of each group, including those of other shards
	for _, k := range e.plan.Trials.All() {
		if !e.plan.Rounds.Leaves(k) {
			planned[groupOf(k)]++
		}
	}
	keys := e.plan.Own().Slice()
	slices.SortFunc(keys, result.Key.Compare)
	step := func() {}
	if e.Begin != nil {
		step = e.Begin(len(keys))
	}
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
		for range n {
			step()
		}
	}
	return e.confirmations()
}

// confirmations writes the confirmation attempts. They belong to no group, so they have no
// advantage.
func (e *exporter) confirmations() error {
	trials, unreadable := result.ReadConfirmations(e.Dir, e.plan)
	e.report.Unreadable = append(e.report.Unreadable, unreadable...)
	e.report.Planned += len(trials) + len(unreadable)
	for i := range trials {
		if err := e.write(row{plan: &e.plan, trial: &trials[i]}); err != nil {
			return err
		}
	}
	return nil
}

// write writes a trial, unless its reward is too low, or it is not for training.
func (e *exporter) write(r row) error {
	if e.Trainable && !r.trial.Trainable {
		e.report.Untrained++
		return nil
	}
	if e.MinReward != nil && (r.trial.Reward == nil || *r.trial.Reward < *e.MinReward) {
		e.report.Below++
		return nil
	}
	e.report.Trials++
	return e.rows.row(r)
}

func groupOf(k result.Key) result.Key {
	k.Attempt = 0
	return k
}

// some reads and writes the trials of whole groups.
func (e *exporter) some(keys []result.Key, planned map[result.Key]int) error {
	trials, unreadable := result.ReadTrials(e.Dir, keys)
	e.report.Planned += len(keys)
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
			if err := e.write(r); err != nil {
				return err
			}
		}
		trials = trials[n:]
	}
	return nil
}

// advantagesOf returns the advantages of a group. It returns nil if one of its planned attempts has
// no reward, because the mean of the others is not the group's.
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

// outputs writes the format of outputs.jsonl.
type outputs struct {
	w           io.Writer
	dir         string
	report      *Report
	prompts     job.Prompts
	tasks       map[int64]result.PlannedTask
	instruction func(result.PlannedTask) []result.Message
	unknown     map[int64]bool // tasks whose prompt is not known
}

func newOutputs(w io.Writer, opts Options, report *Report, plan result.Plan) (*outputs, error) {
	o := &outputs{w: w, dir: opts.Dir, report: report, prompts: job.Prompts{}, tasks: map[int64]result.PlannedTask{}, instruction: opts.Instruction, unknown: map[int64]bool{}}
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
	if err := job.AddConversation(&out, o.dir, *r.trial, maxConversation); err != nil {
		o.report.Unreadable = append(o.report.Unreadable, fmt.Errorf("the record of %s: %w", r.trial.Dir(), err))
	}
	if out.ConversationOmitted != "" {
		o.report.TooLong = append(o.report.TooLong, r.trial.Dir())
	}
	line, err := job.OutputLine(out)
	if err != nil {
		return err
	}
	_, err = o.w.Write(line)
	return err
}

// prompt returns the instruction of a trial's task.
func (o *outputs) prompt(t *result.Trial) []result.Message {
	id := result.ExampleID(t.Dataset, t.Task)
	if p := o.prompts[id]; p != nil || o.unknown[id] {
		return p
	}
	if planned, ok := o.tasks[id]; ok && o.instruction != nil {
		if p := o.instruction(planned); p != nil {
			o.prompts[id] = p
			return p
		}
	}
	o.unknown[id] = true
	return nil
}

func (o *outputs) end() (int, error) { return len(o.unknown), nil }
