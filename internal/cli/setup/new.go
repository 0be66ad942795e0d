package setup

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/app/scaffold"
	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// NewNewCommand returns the command new.
func NewNewCommand(v *command.Invocation) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "new",
		Short: "Write a task to be filled in",
		Long:  "Write a task to be filled in.\n" + command.DoneCodes,
		Example: `  rollout new task evals/my-task
  rollout new task evals/my-task && rollout validate evals/my-task`,
		Args: command.UnknownSubcommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Help()
			return &command.Failure{Code: command.ExitUsage}
		},
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "task DIR",
		Short: "Write a task to be filled in: an instruction, a Dockerfile, a solution and tests",
		Long: `Write the files of a task into a new directory, whose name is the task's name. Its comments say what each file is for.
` + command.DoneCodes,
		Example: `  rollout new task evals/my-task
  rollout validate --run evals/my-task --env-type sandbox`,
		Args: command.OneArg("the directory of the new task"),
		RunE: func(_ *cobra.Command, args []string) error {
			written, err := scaffold.NewTask(v.Host(), args[0])
			for _, file := range written {
				fmt.Fprintln(v.Stdout, file)
			}
			if err == nil {
				fmt.Fprintf(v.Stderr, "next: fill in the files, then rollout validate --run %s\n", untrusted.ShellPath(args[0]))
			}
			return err
		},
	})
	return cmd
}
