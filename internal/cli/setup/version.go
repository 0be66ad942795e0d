package setup

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/cli/command"
)

// NewVersionCommand returns the command version.
func NewVersionCommand(v *command.Invocation) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long:  "Print the version, the Go version and the platform.\n" + command.DoneCodes,
		Example: `  rollout version
  rollout --version`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(v.Stdout, cmd.Root().Version)
			return err
		},
	}
}
