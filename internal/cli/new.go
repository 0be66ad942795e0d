package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/app"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

func newNewCommand(v *invocation) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "new",
		Short: "Write a task to be filled in",
		Long:  "Write a task to be filled in.\n" + doneCodes,
		Example: `  rollout new task evals/my-task
  rollout new task evals/my-task && rollout validate evals/my-task`,
		Args: unknownSubcommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Help()
			return &failure{code: exitUsage}
		},
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "task DIR",
		Short: "Write a task to be filled in: an instruction, a Dockerfile, a solution and tests",
		Long: `Write the files of a task into a new directory, whose name is the task's name. Its comments say what each file is for.
` + doneCodes,
		Example: `  rollout new task evals/my-task
  rollout validate --run evals/my-task --env-type sandbox`,
		Args: oneArg("the directory of the new task"),
		RunE: func(_ *cobra.Command, args []string) error {
			written, err := app.NewTask(v.host(), args[0])
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
