package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/job"
	"github.com/org/rollout-action/internal/job/merge"
	"github.com/org/rollout-action/internal/plural"
)

func (a *app) mergeCommand() *cobra.Command {
	var output string
	var move bool
	var flags reportFlags
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
			return a.merge(cmd.Context(), merge.Options{Paths: args, Output: output, Parent: "jobs", Base: a.Dir, Move: move}, flags)
		},
	}
	cmd.Flags().StringVar(&output, "output", "", "the merged job's directory (default: the job's name below jobs)")
	cmd.Flags().BoolVar(&move, "move", false, "move the trials out of the shards' directories instead of linking them: faster for very large jobs, but the shards are used up; only if all shards are present and complete")
	flags.add(cmd)
	return cmd
}

func (a *app) merge(ctx context.Context, opts merge.Options, flags reportFlags) error {
	if err := flags.check(); err != nil {
		return err
	}
	defer merge.SaveMemory()()
	merged, err := merge.Run(ctx, opts)
	var refusal job.Refusal
	if errors.As(err, &refusal) {
		return usage("%w", err)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Stderr, "Merged %d of %s into %s\n", merged.Merged, plural.Count(merged.Shards, "shard"), clean(merged.Dir))
	for _, note := range merged.Notes {
		fmt.Fprintf(a.Stderr, "note: %s\n", clean(note))
	}
	return a.finish(ctx, merged.Dir, flags, ending{tree: &merged.Tree, incomplete: merged.Incomplete, notes: merged.Notes})
}
