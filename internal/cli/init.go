package cli

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/app"
	"github.com/org/rollout-action/internal/untrusted"
)

func newInitCommand(v *invocation) *cobra.Command {
	return &cobra.Command{
		Use:   "init [DIR]",
		Short: "Write a first job: a job.yaml, a dataset with one task, a workflow",
		Long: `Write job.yaml, a dataset of one task (evals/hello) and a GitHub workflow into a directory
(default: the current one). Files that exist are never written over: if one does, nothing is written.
` + doneCodes,
		Example: `  rollout init
  rollout init my-evals && cd my-evals && rollout job.yaml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return oneArg("at most a directory")(cmd, args)
		},
		RunE: func(_ *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			written, err := app.Init(v.host(), dir)
			for _, file := range written {
				fmt.Fprintln(v.Stdout, file)
			}
			if err == nil {
				v.printNext(dir)
			}
			return err
		},
	}
}

// printNext says what to do with the files that init wrote.
func (e Env) printNext(dir string) {
	job := filepath.Join(dir, "job.yaml")
	fmt.Fprintf(e.Stderr, "next: rollout validate %s, then rollout %s\n", untrusted.ShellPath(job), untrusted.ShellPath(job))
	if filepath.Clean(dir) != "." {
		fmt.Fprintf(e.Stderr, "GitHub reads workflows at the top of a repository only: move %s there, and adapt its paths, if %s is not that\n",
			filepath.Join(dir, app.WorkflowPath), dir)
	}
}
