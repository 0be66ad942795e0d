package setup

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/app/inspect"
	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/cli/tables"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/lib/quantity"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// cleanOptions are the flags of clean.
type cleanOptions struct {
	envType              string
	kept, others, dryRun bool
	images               bool
	olderThan            string
	changed              func(string) bool
}

// NewCleanCommand returns the command clean.
func NewCleanCommand(v *command.Invocation) *cobra.Command {
	var opts cleanOptions
	cmd := &cobra.Command{
		Use:   "clean",
		Short: "Remove environments of killed runs, and images",
		Long: `Remove the environments of runs whose process on this machine has ended, at all providers that are here. Environments of
running jobs are never touched. Environments that were kept on purpose (environment.preserve_env and keep) stay unless --kept is given;
environments of other machines or containers stay unless --others is given. At a cluster, which others use, --others needs --env-type.

With --images, also remove images that were built for tasks, installed agents (cache_install), and the images and layers of
the sandbox provider, if they were not used for --older-than, and no environment and no newer image uses them. Images
that were pulled to a Docker engine stay. Images that were used within the last hour stay, too, because a run may need
them. Docker does not record when an image was used; its creation, or its last use by Rollout on this machine, counts.
` + command.DoneCodes,
		Example: `  rollout clean
  rollout clean --kept --dry-run
  rollout clean --images --older-than 7d --env-type sandbox`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			req, err := opts.request()
			if err != nil {
				return err
			}
			cleaned, err := inspect.Clean(cmd.Context(), v.Host(), req)
			if cleaned != nil {
				printCleaned(v.Stdout, *cleaned, req.DryRun)
			}
			return err
		},
	}
	opts.changed = cmd.Flags().Changed
	cmd.Flags().StringVar(&opts.envType, "env-type", "", "the provider to clean up (default: all that are here)")
	cmd.Flags().BoolVar(&opts.kept, "kept", false, "also remove environments kept by environment.preserve_env, and what keep: outcome kept")
	cmd.Flags().BoolVar(&opts.others, "others", false, "also remove environments of other machines or containers, whether their run has ended or not")
	cmd.Flags().BoolVar(&opts.images, "images", false, "also remove images that Rollout made")
	cmd.Flags().StringVar(&opts.olderThan, "older-than", "7d", "with --images: only images that were not used for this long, such as 36h, 7d or 2w")
	cmd.Flags().BoolVar(&opts.dryRun, "dry-run", false, "only list what would be removed")
	return cmd
}

// request returns what a command line asks for.
func (o *cleanOptions) request() (req inspect.CleanRequest, err error) {
	req = inspect.CleanRequest{Provider: o.envType, Kept: o.kept, Others: o.others, Images: o.images, DryRun: o.dryRun}
	if o.changed("older-than") && !o.images {
		return req, command.Usagef("--older-than is about images: give --images, too")
	}
	if req.Age, err = parseAge(o.olderThan); err != nil {
		return req, command.Usagef("--older-than %s: %w", o.olderThan, err)
	}
	return req, nil
}

// printCleaned prints what was removed, or would be.
func printCleaned(out io.Writer, cleaned inspect.Cleaned, dryRun bool) {
	w := tables.New(out)
	var sum int64
	for _, l := range cleaned.Environments {
		cells := []string{untrusted.Line(short(l.ID)), untrusted.Line(l.Labels.Job), untrusted.Line(l.Labels.Trial)}
		if l.Size > 0 {
			cells = append(cells, quantity.Size(l.Size))
		}
		sum += max(0, l.Size)
		w.Row(cells...)
	}
	_ = w.Flush()
	known := ""
	if sum > 0 {
		known = fmt.Sprintf(", with up to %s of outcomes", quantity.Size(sum))
	}
	fmt.Fprintf(out, "%s %s%s\n", removed(dryRun), plural.Count(len(cleaned.Environments), "environment"), known)
	if cleaned.Images == nil {
		return
	}
	images := cleaned.Images.Removed
	w = tables.New(out)
	for _, img := range images {
		size := "?"
		if img.Size >= 0 {
			size = quantity.Size(img.Size)
		}
		w.Row(untrusted.Line(img.Name), size, img.Used.UTC().Format("2006-01-02 15:04"))
	}
	_ = w.Flush()
	fmt.Fprintf(out, "%s %s%s\n", removed(dryRun), plural.Count(len(images), "image"), taken(images))
	if n := cleaned.Images.Recent; n > 0 {
		fmt.Fprintf(out, "kept %s more, used within the last hour: a run may need them\n", plural.Count(n, "image"))
	}
}

func short(id string) string {
	if len(id) <= 32 || strings.Trim(id, "0123456789abcdef") != "" {
		return id
	}
	return id[:12] // a container's, or a commit's
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
