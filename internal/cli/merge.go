package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/app"
	"github.com/org/rollout-action/internal/core/report"
)

// mergeOptions are the flags of merge.
type mergeOptions struct {
	output string
	name   string
	move   bool
	report reportFlags
}

func newMergeCommand(v *invocation) *cobra.Command {
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
` + exitCodes,
		Example: `  rollout merge shards/
  rollout merge jobs/nightly.shard-*-of-4 --output jobs/nightly
  rollout merge artifacts/ --baseline github: --junit junit.xml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("%s needs directories with shards (see %s --help)", cmd.CommandPath(), cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			req, printed, err := opts.request(args)
			if err != nil {
				return err
			}
			return v.merge(cmd.Context(), req, opts.report.files.printing(v.Stdout, printed))
		},
	}
	cmd.Flags().StringVar(&opts.output, "output", "", "the merged job's directory (default: the job's name below jobs)")
	cmd.Flags().StringVar(&opts.name, "name", "", "the job's name: shards of other jobs are left out, and it is an error if there are only those")
	cmd.Flags().BoolVar(&opts.move, "move", false, "move the trials out of the shards' directories instead of linking them: faster for very large jobs, but the shards are used up; only if all shards are present and complete")
	opts.report.add(cmd, v.Reporters)
	return cmd
}

// request returns what a command line asks for, and the name of the report to print; "" is none.
func (o *mergeOptions) request(paths []string) (req app.MergeRequest, printed string, err error) {
	req = app.MergeRequest{Paths: paths, Output: o.output, Name: o.name, Move: o.move}
	req.Report, printed, err = o.report.options()
	return req, printed, err
}

// merge merges a job's shards and prints the result; print is as in conclude.
func (v *invocation) merge(ctx context.Context, req app.MergeRequest, print func(report.Input) error) error {
	finished, err := app.Merge(ctx, v.host(), req)
	return v.conclude(finished, err, print)
}
