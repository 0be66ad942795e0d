package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/internal/job"
	"github.com/org/rollout-action/internal/plural"
	"github.com/org/rollout-action/internal/quantity"
	"github.com/org/rollout-action/providers"
)

// cleanOptions are the flags of clean.
type cleanOptions struct {
	envType              string
	kept, others, dryRun bool
	images               bool
	olderThan            string
	changed              func(string) bool
}

// cleanRequest is what a command line asks clean for.
type cleanRequest struct {
	provider     providers.Entry
	kept, others bool
	images       bool
	age          time.Duration // of images
	dryRun       bool
}

func newCleanCommand(v *invocation) *cobra.Command {
	var opts cleanOptions
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
			req, err := opts.request(v.Providers)
			if err != nil {
				return err
			}
			return v.clean(cmd.Context(), req)
		},
	}
	opts.changed = cmd.Flags().Changed
	cmd.Flags().StringVar(&opts.envType, "env-type", v.Providers[0].Name, "the provider to clean up")
	cmd.Flags().BoolVar(&opts.kept, "kept", false, "also remove environments kept by preserve_env")
	cmd.Flags().BoolVar(&opts.others, "others", false, "also remove environments of other machines or containers, whether their run has ended or not")
	cmd.Flags().BoolVar(&opts.images, "images", false, "also remove images that Rollout made")
	cmd.Flags().StringVar(&opts.olderThan, "older-than", "7d", "with --images: only images that were not used for this long, such as 36h, 7d or 2w")
	cmd.Flags().BoolVar(&opts.dryRun, "dry-run", false, "only list what would be removed")
	return cmd
}

// request returns what a command line asks for; table has the providers that there are.
func (o *cleanOptions) request(table providers.Table) (cleanRequest, error) {
	req := cleanRequest{kept: o.kept, others: o.others, images: o.images, dryRun: o.dryRun}
	if o.changed("older-than") && !o.images {
		return req, usage("--older-than is about images: give --images, too")
	}
	var ok bool
	if req.provider, ok = table.Find(o.envType); !ok {
		return req, usage("--env-type %s: there is no such provider (there are: %s)", o.envType, strings.Join(table.Names(), ", "))
	}
	var err error
	if req.age, err = parseAge(o.olderThan); err != nil {
		return req, usage("--older-than %s: %w", o.olderThan, err)
	}
	return req, nil
}

// clean removes environments and images, and prints them.
func (v *invocation) clean(ctx context.Context, req cleanRequest) error {
	provider, err := v.host().Connect(ctx, req.provider, nil, providers.Host{
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
	doomed := req.selects(listed)
	if !req.dryRun {
		doomed, err = job.RemoveEnvironments(ctx, provider, doomed)
	}
	v.printEnvironments(doomed)
	verb := "removed"
	if req.dryRun {
		verb = "would remove"
	}
	fmt.Fprintf(v.Stdout, "%s %s\n", verb, plural.Count(len(doomed), "environment"))
	if req.images && ctx.Err() == nil {
		err = errors.Join(err, v.cleanImages(ctx, provider, req.age, req.dryRun))
	}
	return err
}

// selects returns the environments to remove. Those of a live owner are never among them.
func (r cleanRequest) selects(listed []environment.Listed) []environment.Listed {
	var doomed []environment.Listed
	for _, l := range listed {
		alive := l.Labels.Owner.Alive()
		switch {
		case l.Kept:
			if r.kept && (alive != environment.Unknown || r.others) {
				doomed = append(doomed, l)
			}
		case alive == environment.Dead, alive == environment.Unknown && r.others:
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

// cleanImages removes images that were not used for age, and reports how much space they took.
func (v *invocation) cleanImages(ctx context.Context, provider environment.Provider, age time.Duration, dryRun bool) error {
	store, ok := environment.As[environment.ImageStore](provider)
	if !ok {
		return usage("--images: the provider %s keeps no images that Rollout could list and remove", provider.Name())
	}
	images, err := store.Images(ctx)
	if err != nil {
		return err
	}
	now := v.Now()
	doomed := job.Prunable(images, now.Add(-max(age, job.MinImageAge)))
	recent := 0
	if age < job.MinImageAge {
		recent = len(job.Prunable(images, now.Add(-age))) - len(doomed)
	}
	if !dryRun {
		doomed, err = job.RemoveImages(ctx, store, doomed)
	}
	v.printImages(doomed)
	verb := "removed"
	if dryRun {
		verb = "would remove"
	}
	fmt.Fprintf(v.Stdout, "%s %s%s\n", verb, plural.Count(len(doomed), "image"), taken(doomed))
	if recent > 0 {
		fmt.Fprintf(v.Stdout, "%s more stayed: used within the last hour, so a run may need what was to go\n", plural.Count(recent, "image"))
	}
	return err
}

func (v *invocation) printImages(images []environment.Image) {
	w := tabwriter.NewWriter(v.Stdout, 0, 0, 2, ' ', 0)
	for _, img := range images {
		size := "?"
		if img.Size >= 0 {
			size = quantity.Size(img.Size)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", clean(img.Name), size, img.Used.UTC().Format("2006-01-02 15:04"))
	}
	_ = w.Flush()
}

// taken returns how much space images take together, in words.
func taken(images []environment.Image) string {
	var sum int64
	unknown := 0
	for _, img := range images {
		if img.Size < 0 {
			unknown++
		}
		sum += max(0, img.Size)
	}
	switch {
	case len(images) == 0:
		return ""
	case unknown > 0:
		return fmt.Sprintf(", up to %s and what %d of unknown size took", quantity.Size(sum), unknown)
	}
	return ", up to " + quantity.Size(sum)
}

// parseAge reads a length of time: Go's durations, and whole days and weeks.
func parseAge(text string) (time.Duration, error) {
	for _, unit := range []struct {
		suffix string
		length time.Duration
	}{{"d", 24 * time.Hour}, {"w", 7 * 24 * time.Hour}} {
		number, ok := strings.CutSuffix(text, unit.suffix)
		if n, err := strconv.ParseUint(number, 10, 16); ok && err == nil && n <= 36500 {
			return time.Duration(n) * unit.length, nil
		}
	}
	age, err := time.ParseDuration(text)
	if err != nil || age < 0 {
		return 0, errors.New("give a length of time, such as 36h, 7d or 2w")
	}
	return age, nil
}
