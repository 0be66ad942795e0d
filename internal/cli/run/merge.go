package run

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/app"
	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/cli/flags"
	"github.com/org/rollout-action/internal/cli/tables"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// mergeOptions are the flags of merge.
type mergeOptions struct {
	output string
	name   string
	move   bool
	look   bool
	report flags.Report
}

// NewMergeCommand returns the command merge.
func NewMergeCommand(v *command.Invocation) *cobra.Command {
	var opts mergeOptions
	cmd := &cobra.Command{
		Use:   "merge DIR...",
		Short: "Put the shards of a job together, and report on the whole",
		Long: `Combine the shards of a job: the directories that "rollout run --shard" wrote on several machines become
the one directory that a run of the whole job would have written. Then report on it as "rollout report" does.
Each argument is a shard's directory, a directory with shards up to three levels down (as artifacts are
downloaded), or an archive (.tar, .tar.gz, .tgz, .zip). The shards do not change, except with --move.

Shards of different plans are refused. A missing, cancelled or crashed shard is named, with its missing
trials, and the job does not pass. If a shard was run again, its newest complete directory counts. A merge may be
repeated: it replaces only what an earlier merge of the same plan wrote.

With --look it writes no job. It looks at the shards of a job that stops early (gate.stop), of which each has run with
"rollout run --shard 1/3 --round 1", and prints which shards make which round next. In a workflow it sets the outputs round, matrix
(of the shards) and shards (their number): round is empty and the matrix, too, if the verdict is clear. The merge decides the same
again, from the results alone.
` + command.RunCodes,
		Example: `  rollout merge shards/
  rollout merge jobs/nightly.shard-*-of-4 --output jobs/nightly
  rollout merge artifacts/ --baseline github: --junit junit.xml
  rollout merge artifacts/ --look --baseline results/main`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return command.Usagef("%s needs directories with shards (see %s --help)", cmd.CommandPath(), cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			req, printed, err := opts.request(args)
			if err != nil {
				return err
			}
			if opts.look {
				if opts.output != "" || opts.move {
					return command.Usagef("--look writes no job: leave out --output and --move")
				}
				return Look(cmd.Context(), v, req)
			}
			return Merge(cmd.Context(), v, req, opts.report.Files.Printing(v.Stdout, printed))
		},
	}
	cmd.Flags().StringVar(&opts.output, "output", "", "the merged job's directory (default: the job's name below jobs)")
	cmd.Flags().StringVar(&opts.name, "name", "", "the job's name: shards of other jobs are left out, and it is an error if there are only those")
	cmd.Flags().BoolVar(&opts.move, "move", false, "move the trials out of the shards' directories instead of linking them: faster for very large jobs, but the shards are used up; only if all shards are present and complete")
	cmd.Flags().BoolVar(&opts.look, "look", false, "with gate.stop: only say which round of attempts the shards make next, or that the verdict is clear")
	opts.report.Add(cmd, v.Reporters)
	return cmd
}

// request returns what a command line asks for, and the name of the report to print; "" is none.
func (o *mergeOptions) request(paths []string) (req reporting.MergeRequest, printed string, err error) {
	req = reporting.MergeRequest{Paths: paths, Output: o.output, Name: o.name, Move: o.move}
	req.Report, printed, err = o.report.Options()
	return req, printed, err
}

// Merge merges a job's shards and prints the result; print is as in Invocation.Conclude.
func Merge(ctx context.Context, v *command.Invocation, req reporting.MergeRequest, print func(report.Input) error) error {
	finished, err := reporting.Merge(ctx, v.Host(), req)
	return v.Conclude(finished, err, print)
}

// Look looks at the shards of a job in rounds, and prints which round is next.
func Look(ctx context.Context, v *command.Invocation, req reporting.MergeRequest) error {
	looked, err := app.Look(ctx, v.Host(), req)
	if looked.Note != "" {
		fmt.Fprintln(v.Stdout, untrusted.Line(looked.Note))
	}
	switch {
	case err != nil:
		return err
	case looked.Incomplete != "":
		return &command.Failure{Code: command.ExitGate, Err: errors.New(looked.Incomplete)}
	case looked.Round == 0:
		_, err := fmt.Fprintln(v.Stdout, "no further round")
		return err
	}
	fmt.Fprintf(v.Stdout, "next: round %d\n", looked.Round)
	w := tables.New(v.Stdout)
	w.Row("SHARD", "TRIALS")
	for _, s := range looked.Shards {
		w.Row(s.Shard.String(), strconv.Itoa(s.Trials))
	}
	return w.Flush()
}
