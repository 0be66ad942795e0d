package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/job"
)

func (a *app) mergeCommand() *cobra.Command {
	var output string
	var move bool
	var flags reportFlags
	cmd := &cobra.Command{
		Use:   "merge DIR...",
		Short: "Put the shards of a job together, and report on the whole",
		Long: `Put the shards of a job together: the folders that "rollout run --shard" left on several machines become
the one folder that a run of the whole job would have left, and that is reported on as by "rollout report".
Each argument is a shard's folder, a folder with shards up to three levels down (as artifacts are
downloaded), or an archive (.tar, .tar.gz, .tgz, .zip). The shards themselves are left as they are, unless --move says otherwise.

Shards of different plans are refused. A missing, cancelled or crashed shard is named, with the trials that it
owed, and the job does not pass. Of a shard that was run again, the newest complete folder counts. A merge may be
repeated: it replaces what an earlier one of the same plan wrote, and nothing else.
` + exitCodes,
		Example: `  rollout merge shards/
  rollout merge jobs/nightly.shard-*-of-4 --output jobs/nightly
  rollout merge artifacts/ --baseline github: --junit junit.xml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("%s needs folders with shards (see %s --help)", cmd.CommandPath(), cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.merge(cmd.Context(), job.MergeOptions{Paths: args, Output: output, Parent: "jobs", Base: a.Dir, Move: move}, flags)
		},
	}
	cmd.Flags().StringVar(&output, "output", "", "the merged job's folder (default: the job's name below jobs)")
	cmd.Flags().BoolVar(&move, "move", false, "move the trials out of the shards' folders instead of linking them: faster for very large jobs, but the shards are used up; only if all are there and complete")
	flags.add(cmd)
	return cmd
}

func (a *app) merge(ctx context.Context, opts job.MergeOptions, flags reportFlags) error {
	if err := flags.check(); err != nil {
		return err
	}
	defer job.SaveMemory()()
	merged, err := job.Merge(ctx, opts)
	var refusal job.Refusal
	if errors.As(err, &refusal) {
		return usage("%w", err)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Stderr, "Merged %d of %s into %s\n", merged.Merged, plural(merged.Shards, "shard"), clean(merged.Dir))
	for _, note := range merged.Notes {
		fmt.Fprintf(a.Stderr, "note: %s\n", clean(note))
	}
	return a.finish(ctx, merged.Dir, flags, ending{tree: &merged.Tree, incomplete: merged.Incomplete, notes: merged.Notes})
}
