package setup

import (
	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/task"
)

// NewSchemaCommand returns the command schema.
func NewSchemaCommand(v *command.Invocation) *cobra.Command {
	schemas := map[string]func() ([]byte, error){"job": config.Schema, "task": task.Schema}
	return &cobra.Command{
		Use:   "schema job|task",
		Short: "Print the JSON Schema of job files or of task.toml, for editors",
		Long: `Print the JSON Schema of job files or of task.toml. Editors use it to complete and check them;
for YAML, begin the file with "# yaml-language-server: $schema=PATH".
` + command.DoneCodes,
		Example: `  rollout schema job > job.schema.json
  rollout schema task > task.schema.json`,
		Args:      command.OneArg("job or task"),
		ValidArgs: []string{"job", "task"},
		RunE: func(_ *cobra.Command, args []string) error {
			schema, ok := schemas[args[0]]
			if !ok {
				return command.Usagef("there is no schema of %q: want job or task", args[0])
			}
			text, err := schema()
			if err != nil {
				return err
			}
			_, err = v.Stdout.Write(text)
			return err
		},
	}
}
