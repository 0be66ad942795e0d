package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/org/rollout-action/internal/app"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// oneArg wants exactly one argument, and says which.
func oneArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch len(args) {
		case 0:
			return usage("%s needs %s (see %s --help)", cmd.CommandPath(), what, cmd.CommandPath())
		case 1:
			return nil
		}
		return usage("%s takes one argument, got %d: %s (see %s --help)", cmd.CommandPath(), len(args), strings.Join(args, " "), cmd.CommandPath())
	}
}

// jobAnd returns the directory of the job that the first argument names, by its path or by its name
// below the jobs directory, and the arguments after it. Without an argument it is that of the
// newest job, which stderr says.
func (v *invocation) jobAnd(ctx context.Context, args []string) (dir string, rest []string, err error) {
	if len(args) > 0 {
		return v.host().NamedJob(args[0]), args[1:], nil
	}
	newest, err := app.NewestJobs(ctx, v.host(), 1)
	if err != nil {
		return "", nil, err
	}
	fmt.Fprintf(v.Stderr, "Taking the newest job: %s\n", untrusted.ShellPath(newest[0]))
	return newest[0], nil, nil
}

// maybeJob wants at most one argument, a job.
func maybeJob(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return oneArg("a job's directory")(cmd, args)
}

// noArgs wants none.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("%s takes no arguments, got: %s (see %s --help)", cmd.CommandPath(), strings.Join(args, " "), cmd.CommandPath())
	}
	return nil
}

// wanted is the annotation of a flag that says which values it takes.
const wanted = "rollout_wanted"

// wants says which values a flag takes, for the error about an empty one.
func wants(flags *pflag.FlagSet, name, values string) {
	if err := flags.SetAnnotation(name, wanted, []string{values}); err != nil {
		panic(err) // there is no such flag
	}
}

// refuseEmpty refuses flags that were given without a value: a variable of a script that is not set
// must not decide anything.
func refuseEmpty(cmd *cobra.Command, _ []string) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if err != nil || !isEmpty(f.Value) {
			return
		}
		want := "leave it out, or give one: " + f.Usage
		if values := f.Annotations[wanted]; len(values) > 0 {
			want = values[0]
		}
		err = usage("--%s has no value: %s", f.Name, want)
	})
	return err
}

// isEmpty reports whether a flag that was given is empty, or one of its values is.
func isEmpty(value pflag.Value) bool {
	if list, ok := value.(pflag.SliceValue); ok {
		values := list.GetSlice()
		return len(values) == 0 || slices.Contains(values, "")
	}
	return value.String() == ""
}
