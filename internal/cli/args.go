package cli

import (
	"strings"

	"github.com/spf13/cobra"
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

// noArgs wants none.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("%s takes no arguments, got: %s (see %s --help)", cmd.CommandPath(), strings.Join(args, " "), cmd.CommandPath())
	}
	return nil
}
