package setup

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/app/inspect"
	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/cli/tables"
	"github.com/org/rollout-action/internal/lib/cache"
	"github.com/org/rollout-action/internal/lib/quantity"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// NewCacheCommand returns the command cache.
func NewCacheCommand(v *command.Invocation) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cache",
		Short: "List and remove cached datasets",
		Long: `List and remove cached datasets and registries. The cache is in $XDG_CACHE_HOME/rollout, or ~/.cache/rollout.
When it grows larger than $ROLLOUT_CACHE_SIZE (20Gi), the least recently used entries are removed. Images and layers
of the sandbox are not part of it; see "rollout clean".
` + command.DoneCodes,
		Example: `  rollout cache ls
  rollout cache prune --older-than 7d --dry-run`,
		Args: command.UnknownSubcommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Help()
			return &command.Failure{Code: command.ExitUsage}
		},
	}
	cmd.AddCommand(newCacheLsCommand(v), newCachePruneCommand(v))
	return cmd
}

func newCacheLsCommand(v *command.Invocation) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the entries of the cache",
		Long:  "List the entries of the cache, the least recently used first.\n" + command.DoneCodes,
		Example: `  rollout cache ls
  rollout cache ls --json`,
		Args: command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			cached, err := inspect.ListCache(v.Host())
			if err != nil {
				return err
			}
			if asJSON {
				return v.PrintJSON(append([]cache.Entry{}, cached.Entries...)) // never null
			}
			return printEntries(v.Stdout, cached)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: kind, about, path, size_bytes, last_used and in_use")
	return cmd
}

// printEntries prints the cache as text.
func printEntries(out io.Writer, cached inspect.Cached) error {
	total := int64(0)
	w := tables.New(out)
	if len(cached.Entries) > 0 {
		w.Row("LAST USED", "SIZE", "KIND", "WHAT")
	}
	for _, e := range cached.Entries {
		total += e.Size
		what := tables.Cell(e.About)
		if e.InUse {
			what += " (in use)"
		}
		w.Row(e.LastUsed.Local().Format("2006-01-02 15:04"), size(e.Size), tables.Cell(e.Kind), what)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%s, %s in %s\n", entries(len(cached.Entries)), size(total), untrusted.Line(cached.Dir))
	return err
}

func entries(n int) string {
	if n == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%d entries", n)
}

// size formats a number of bytes with a unit.
func size(bytes int64) string {
	value, unit := float64(bytes), "B"
	for _, next := range []string{"Ki", "Mi", "Gi", "Ti"} {
		if value < 1024 {
			break
		}
		value, unit = value/1024, next
	}
	if unit == "B" || value >= 10 {
		return fmt.Sprintf("%.0f %s", value, unit)
	}
	return fmt.Sprintf("%.1f %s", value, unit)
}

// pruneOptions are the flags of cache prune.
type pruneOptions struct {
	maxSize, olderThan string
	all, dryRun        bool
}

func newCachePruneCommand(v *command.Invocation) *cobra.Command {
	var opts pruneOptions
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove entries from the cache",
		Long: `Remove the entries of the cache that the flags select, and the incomplete entries of killed runs. Entries that a
running process uses stay.
` + command.DoneCodes,
		Example: `  rollout cache prune --older-than 7d --max-size 10G
  rollout cache prune --all --dry-run`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			policy, err := opts.policy()
			if err != nil {
				return err
			}
			pruned, err := inspect.PruneCache(cmd.Context(), v.Host(), policy)
			if pruned != nil {
				printPruned(v.Env, *pruned, policy.DryRun)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&opts.maxSize, "max-size", "", "remove the least recently used entries until the rest is at most this large, as in 10G")
	cmd.Flags().StringVar(&opts.olderThan, "older-than", "", "remove entries that were not used for this long, such as 36h, 7d or 2w")
	cmd.Flags().BoolVar(&opts.all, "all", false, "remove everything")
	cmd.Flags().BoolVar(&opts.dryRun, "dry-run", false, "only list what would be removed")
	return cmd
}

// policy returns what the flags ask for.
func (o *pruneOptions) policy() (cache.Policy, error) {
	p := cache.Policy{All: o.all, DryRun: o.dryRun}
	if !o.all && o.maxSize == "" && o.olderThan == "" {
		return p, command.Usagef("say what to remove: --max-size 10G, --older-than 7d or --all")
	}
	if o.maxSize != "" {
		bytes, err := quantity.Bytes(o.maxSize)
		if err != nil {
			return p, command.Usagef("--max-size: %w", err)
		}
		p.MaxSize = &bytes
	}
	if o.olderThan != "" {
		age, err := parseAge(o.olderThan)
		if err != nil || age <= 0 {
			return p, command.Usagef("--older-than %s: give a length of time, such as 36h, 7d or 2w", o.olderThan)
		}
		p.OlderThan = age
	}
	return p, nil
}

// printPruned prints what was removed from the cache, or would be.
func printPruned(e command.Env, pruned cache.Pruned, dryRun bool) {
	freed := int64(0)
	for _, entry := range pruned.Removed {
		freed += entry.Size
		fmt.Fprintf(e.Stdout, "%s  %s\n", size(entry.Size), tables.Cell(entry.About))
	}
	fmt.Fprintf(e.Stdout, "%s %s, %s; %s left\n", removed(dryRun), entries(len(pruned.Removed)), size(freed), size(pruned.Kept))
	if n := len(pruned.InUse); n > 0 {
		fmt.Fprintf(e.Stderr, "%s in use, and stay\n", entries(n))
	}
}

// removed returns what happened to things, or with --dry-run would happen.
func removed(dryRun bool) string {
	if dryRun {
		return "would remove"
	}
	return "removed"
}
