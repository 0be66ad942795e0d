package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/app/library"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// OneArg wants exactly one argument, and says which.
func OneArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch len(args) {
		case 0:
			return Usagef("%s needs %s (see %s --help)", cmd.CommandPath(), what, cmd.CommandPath())
		case 1:
			return nil
		}
		return Usagef("%s takes one argument, got %d: %s (see %s --help)", cmd.CommandPath(), len(args), strings.Join(args, " "), cmd.CommandPath())
	}
}

// JobAnd returns the directory of the job that the first argument names, by its path or by its name
// below the jobs directory, and the arguments after it. Without an argument, dir is that
// of the newest job, and stderr gets its name.
func (v *Invocation) JobAnd(ctx context.Context, args []string) (dir string, rest []string, err error) {
	if len(args) > 0 {
		return v.Host().NamedJob(args[0]), args[1:], nil
	}
	newest, err := library.NewestJobs(ctx, v.Host(), 1)
	if err != nil {
		return "", nil, err
	}
	fmt.Fprintf(v.Stderr, "Taking the newest job: %s\n", untrusted.ShellPath(newest[0]))
	return newest[0], nil, nil
}

// MaybeJob wants at most one argument, a job.
func MaybeJob(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return OneArg("a job's directory")(cmd, args)
}

// NoArgs wants none.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usagef("%s takes no arguments, got: %s (see %s --help)", cmd.CommandPath(), strings.Join(args, " "), cmd.CommandPath())
	}
	return nil
}

// UnknownSubcommand checks the arguments of a command that has only subcommands.
func UnknownSubcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	hint := "there are: " + strings.Join(names, ", ")
	if near := diag.DidYouMean(args[0], names); near != "" {
		hint = near
	}
	return Usagef("%s has no command %q (%s)", cmd.CommandPath(), args[0], hint)
}
