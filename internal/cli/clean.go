package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/internal/job"
	"github.com/org/rollout-action/internal/plural"
	"github.com/org/rollout-action/providers"
)

type cleanFlags struct {
	envType              string
	kept, others, dryRun bool
	images               bool
	olderThan            string
}

func newCleanCommand(v *invocation) *cobra.Command {
	var flags cleanFlags
	cmd := &cobra.Command{
		Use:   "clean",
		Short: "Remove environments of killed runs, and images",
		Long: `Remove the environments of runs whose process on this machine has ended. Environments of running jobs are
never touched. Environments that were kept on purpose (preserve_env) stay unless --kept is given; environments
of other machines or containers stay unless --others is given.

With --images, also remove images that were built for tasks, installed agents (cache_install), and the images and layers of
the sandbox provider, if they were not used for --older-than, and no environment and no newer image uses them. Images
that were pulled to a Docker engine stay. Images that were used within the last hour stay, too, because a run may need
them. Docker does not record when an image was used; its creation, or its last use by Rollout on this machine, counts.
` + doneCodes,
		Example: `  rollout clean
  rollout clean --kept --dry-run
  rollout clean --images --older-than 7d --env-type sandbox`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("older-than") && !flags.images {
				return usage("--older-than is about images: give --images, too")
			}
			return v.clean(cmd.Context(), flags)
		},
	}
	cmd.Flags().StringVar(&flags.envType, "env-type", v.Providers[0].Name, "the provider to clean up")
	cmd.Flags().BoolVar(&flags.kept, "kept", false, "also remove environments kept by preserve_env")
	cmd.Flags().BoolVar(&flags.others, "others", false, "also remove environments of other machines or containers, whether their run has ended or not")
	cmd.Flags().BoolVar(&flags.images, "images", false, "also remove images that Rollout made")
	cmd.Flags().StringVar(&flags.olderThan, "older-than", "7d", "with --images: only images that were not used for this long, such as 36h, 7d or 2w")
	cmd.Flags().BoolVar(&flags.dryRun, "dry-run", false, "only list what would be removed")
	return cmd
}

func (v *invocation) clean(ctx context.Context, flags cleanFlags) error {
	entry, ok := v.Providers.Find(flags.envType)
	if !ok {
		return usage("--env-type %s: there is no such provider (there are: %s)", flags.envType, strings.Join(v.Providers.Names(), ", "))
	}
	age, err := parseAge(flags.olderThan)
	if err != nil {
		return usage("--older-than %s: %w", flags.olderThan, err)
	}
	provider, err := v.host().Connect(ctx, entry, nil, providers.Host{
		Progress: func(line string) { fmt.Fprintln(v.Stderr, clean(line)) },
	})
	if err != nil {
		return err
	}
	defer provider.Close()
	listed, err := provider.List(ctx)
	if err != nil {
		return err
	}
	doomed := flags.choose(listed)
	if !flags.dryRun {
		doomed, err = job.RemoveEnvironments(ctx, provider, doomed)
	}
	v.printEnvironments(doomed)
	verb := "removed"
	if flags.dryRun {
		verb = "would remove"
	}
	fmt.Fprintf(v.Stdout, "%s %s\n", verb, plural.Count(len(doomed), "environment"))
	if flags.images && ctx.Err() == nil {
		err = errors.Join(err, v.cleanImages(ctx, provider, age, flags.dryRun))
	}
	return err
}

// choose picks what may go. Whatever the flags, the environments of a live owner stay.
func (f cleanFlags) choose(listed []environment.Listed) []environment.Listed {
	var doomed []environment.Listed
	for _, l := range listed {
		alive := l.Labels.Owner.Alive()
		switch {
		case l.Kept:
			if f.kept && (alive != environment.Unknown || f.others) {
				doomed = append(doomed, l)
			}
		case alive == environment.Dead, alive == environment.Unknown && f.others:
			doomed = append(doomed, l)
		}
	}
	return doomed
}

func (v *invocation) printEnvironments(list []environment.Listed) {
	w := tabwriter.NewWriter(v.Stdout, 0, 0, 2, ' ', 0)
	for _, l := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\n", clean(short(l.ID)), clean(l.Labels.Job), clean(l.Labels.Trial))
	}
	_ = w.Flush()
}

func short(id string) string {
	if len(id) > 12 {
		return id[:12]
	}
	return id
}
