// Package flags has the flags that several commands share, each group a type that adds them to a
// command and returns the part of a request that they ask for.
package flags

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/org/rollout-action/internal/cli/command"
)

// flagGroup is the annotation of a flag that says which of the headings help lists it below.
const flagGroup = "rollout_group"

// The headings.
const (
	ForSelection = "Flags for the selection"
	ForTasks     = "Flags for tasks without a job file"
	ForRunning   = "Flags for the execution"
	ForExisting  = "Flags for a job that exists"
	ForReports   = "Flags for the comparison and reports"
	ForGate      = "Flags of the gate"
	ForProof     = "Flags for proving tasks (with --run)"
)

// Grouped puts the flags that add defines below a heading, unless they have one already.
func Grouped(cmd *cobra.Command, heading string, add func(*pflag.FlagSet)) {
	before := map[string]bool{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) { before[f.Name] = true })
	add(cmd.Flags())
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !before[f.Name] && f.Annotations[flagGroup] == nil {
			_ = cmd.Flags().SetAnnotation(f.Name, flagGroup, []string{heading}) // it exists
		}
	})
}

// HeadingOf returns the heading of a flag; "" if it has none.
func HeadingOf(f *pflag.Flag) string {
	if of := f.Annotations[flagGroup]; len(of) > 0 {
		return of[0]
	}
	return ""
}

// common is the annotation of a flag that help lists also where a command has many flags.
const common = "rollout_common"

func markCommon(flags *pflag.FlagSet, name string) {
	_ = flags.SetAnnotation(name, common, []string{}) // it exists
}

// IsCommon reports whether help lists a flag also where a command has many flags.
func IsCommon(f *pflag.Flag) bool {
	_, is := f.Annotations[common]
	return is
}

// wanted is the annotation of a flag that says which values it takes.
const wanted = "rollout_wanted"

// Wants says which values a flag takes, for the error about an empty one.
func Wants(flags *pflag.FlagSet, name, values string) {
	if err := flags.SetAnnotation(name, wanted, []string{values}); err != nil {
		panic(err) // there is no such flag
	}
}

// RefuseEmpty refuses flags that were given without a value: a variable of a script that is not set
// must not decide anything.
func RefuseEmpty(cmd *cobra.Command, _ []string) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if err != nil || !isEmpty(f.Value) {
			return
		}
		want := "leave it out, or give one: " + f.Usage
		if values := f.Annotations[wanted]; len(values) > 0 {
			want = values[0]
		}
		err = command.Usagef("--%s has no value: %s", f.Name, want)
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
