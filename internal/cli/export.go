package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/export"
	"github.com/org/rollout-action/internal/job"
	"github.com/org/rollout-action/internal/plural"
	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/internal/task"
)

// exportOptions are the flags of export.
type exportOptions struct{ format, output string }

func newExportCommand(v *invocation) *cobra.Command {
	var opts exportOptions
	cmd := &cobra.Command{
		Use:   "export JOB_DIR",
		Short: "Write a job's trials as one file for other programs",
		Long: `Write every trial of a job that has a result, sorted by agent, dataset, task and attempt, from what is on
disk. It also works for jobs that were cancelled or killed, for shards and for merged jobs, and prints how many trials have
no result. The formats are

  outputs  a JSON object on each line, as in outputs.jsonl: prompt, reward, metrics, timing, error, stop
           condition, and how the reward compares with the group's (all attempts of an agent at a task)
  jsonl    a flat JSON object on each line, with every number of the trial's result.json
  csv      the same as a table. Text that a spreadsheet would take for a formula begins with an apostrophe

"advantage" is the reward minus the group's mean, "advantage_normalized" that divided by the group's standard deviation;
both are empty while an attempt of the group has no reward.

Exit codes:
  0  written
  1  written, but some results cannot be read
  2  wrong usage
  3  rollout or its infrastructure failed`,
		Example: `  rollout export jobs/nightly --format csv --output nightly.csv
  rollout export jobs/nightly --format outputs | jq 'select(.reward == 1)'`,
		Args: oneArg("a job's directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return v.export(cmd.Context(), args[0], opts)
		},
	}
	cmd.Flags().StringVar(&opts.format, "format", "outputs", "what to write: "+strings.Join(export.Formats, ", "))
	cmd.Flags().StringVar(&opts.output, "output", "", "write to this file instead of stdout")
	return cmd
}

// export writes the trials of a job.
func (v *invocation) export(ctx context.Context, dir string, opts exportOptions) error {
	if !slices.Contains(export.Formats, opts.format) {
		return usage("--format %s: there are %s", clean(opts.format), strings.Join(export.Formats, ", "))
	}
	if err := v.host().CheckJobDir(dir); err != nil {
		return err
	}
	how := export.Options{Dir: v.path(dir), Format: opts.format, Instruction: v.instruction}
	var report export.Report
	write := func(w io.Writer) (err error) {
		report, err = export.Write(ctx, w, how)
		return err
	}
	var err error
	if opts.output == "" {
		err = write(v.Stdout)
	} else {
		err = whole(v.path(opts.output), write)
	}
	if errors.Is(err, fs.ErrNotExist) && report.Trials == 0 {
		return usage("%w (give the directory of a job, such as jobs/nightly)", err)
	}
	if err != nil {
		return fmt.Errorf("export %s: %w", dir, err)
	}
	return v.exported(report)
}

// exported warns of what was not written.
func (v *invocation) exported(report export.Report) error {
	if report.Missing > 0 {
		v.warnf("%d of %s have no result, and are left out", report.Missing, plural.Count(report.Missing+report.Trials+len(report.Unreadable), "trial"))
	}
	if report.MissingPrompts > 0 {
		v.warnf("the prompt of %s is null: no outputs.jsonl tells it, and the task's directory is not here or has changed", plural.Count(report.MissingPrompts, "task"))
	}
	for _, unreadable := range report.Unreadable[:min(len(report.Unreadable), 10)] {
		v.warnf("%v", unreadable)
	}
	if n := len(report.Unreadable); n > 0 {
		v.warnf("%s cannot be read, and are left out", plural.Count(n, "result"))
		return &failure{code: exitGate}
	}
	return nil
}

// instruction returns the prompt of a task whose directory has not changed since the job was planned; nil for others.
func (v *invocation) instruction(planned result.PlannedTask) []result.Message {
	path := filepath.FromSlash(planned.Path)
	if planned.Digest == "" || !filepath.IsLocal(path) {
		return nil
	}
	for _, top := range []string{v.path("."), repository(v.path("."))} {
		if top == "" {
			continue
		}
		loader := task.Loader{Options: task.Options{Format: task.Format(planned.Format)}}
		if t := loader.Load(filepath.Join(top, path)); t.Digest() == planned.Digest {
			return job.Instruction(t, nil)
		}
	}
	return nil
}

// repository returns the top of the git repository around a directory; "" outside git.
func repository(dir string) string {
	dir, err := filepath.Abs(dir)
	for err == nil {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
		above := filepath.Dir(dir)
		if above == dir {
			break
		}
		dir = above
	}
	return ""
}

// whole writes a file as a whole or not at all, making its directory.
func whole(path string, write func(io.Writer) error) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	draft, err := os.CreateTemp(filepath.Dir(path), ".export-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(draft.Name()))
		}
	}()
	if err := errors.Join(write(draft), draft.Chmod(0o644), draft.Close()); err != nil {
		return err
	}
	return os.Rename(draft.Name(), path)
}
