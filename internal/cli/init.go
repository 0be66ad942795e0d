package cli

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/org/rollout-action/internal/app"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

func newInitCommand(v *invocation) *cobra.Command {
	var req app.InitRequest
	var yes bool
	cmd := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Write a first job: a job.yaml, a dataset with one task, a workflow",
		Long: `Write job.yaml, the first script of an agent, a dataset of one task (evals/hello) and a GitHub workflow into a directory
(default: the current one). Files that exist are never written over: if one does, nothing is written.

On a terminal it asks for the provider, where the tasks are, and which agent runs; flags answer the questions, and --yes takes
the defaults. Elsewhere, and in CI, it asks nothing. Nothing is written before the last answer. The tasks may be a directory,
NAME@VERSION of a dataset in Harbor's public registry, or "REGISTRY NAME@VERSION" with the path or URL of another one.
` + doneCodes,
		Example: `  rollout init
  rollout init my-evals --yes && cd my-evals && rollout job.yaml
  rollout init --env-type sandbox --tasks ./evals --agent my-agent
  rollout init --tasks 'https://example.org/registry.json terminal-bench@2.0' --agent oracle`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return oneArg("at most a directory")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			req.Dir = "."
			if len(args) == 1 {
				req.Dir = args[0]
			}
			host := v.host()
			if err := app.CheckInitDir(host, req.Dir); err != nil {
				return err
			}
			if !yes && v.asks() {
				if err := v.askInit(cmd.Context(), host, cmd.Flags().Changed, &req); err != nil {
					return err
				}
			}
			written, err := app.Init(cmd.Context(), host, req)
			for _, file := range written {
				fmt.Fprintln(v.Stdout, file)
			}
			if err == nil {
				v.printNext(req.Dir)
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&req.Provider, "env-type", "", "the provider to run on (default: docker)")
	flags.StringVar(&req.Tasks, "tasks", "", "what to run instead of the example: a directory of tasks, one task, or a dataset of a registry, as NAME@VERSION (Harbor's) or as 'REGISTRY NAME@VERSION' with a path or URL")
	flags.StringVar(&req.Agent, "agent", "", "oracle, or the name of your agent (default: "+app.ExampleAgent+")")
	flags.BoolVarP(&yes, "yes", "y", false, "ask nothing: what no flag answers has its default")
	return cmd
}

// asks reports whether somebody is there to answer questions: standard input and stderr are a
// terminal, and this is not CI.
func (e Env) asks() bool {
	in, ok := e.Stdin.(*os.File)
	return ok && e.Terminal != nil && e.getenv("CI") == "" && term.IsTerminal(int(in.Fd()))
}

// askInit asks what no flag has answered.
func (v *invocation) askInit(ctx context.Context, host *app.Host, answered func(flag string) bool, req *app.InitRequest) error {
	a := newAsker(v.Stdin, v.Stderr)
	if !answered("env-type") {
		fmt.Fprintln(v.Stderr, "Where do trials run?")
		width := 0
		for _, name := range host.Providers.Names() {
			width = max(width, len(name))
		}
		for _, p := range host.Providers {
			fmt.Fprintf(v.Stderr, "  %-*s  %s\n", width, p.Name, p.Summary)
		}
		err := a.ask(ctx, "Provider", host.Providers.Names()[0], func(answer string) error {
			req.Provider = answer
			return app.CheckInitProvider(host, answer)
		})
		if err != nil {
			return err
		}
	}
	if !answered("tasks") {
		err := a.ask(ctx, "Directory with your tasks, or NAME@VERSION of a registry's dataset (Enter: write an example)", "", func(answer string) error {
			req.Tasks = answer
			_, err := app.CheckInitTasks(ctx, host, req.Dir, answer)
			return err
		})
		if err != nil {
			return err
		}
	}
	if !answered("agent") {
		return a.ask(ctx, "Name of your agent (oracle: none yet, only the tasks' solutions)", app.ExampleAgent, func(answer string) error {
			req.Agent = answer
			return app.CheckInitAgent(answer)
		})
	}
	return nil
}

// printNext says what to do with the files that init wrote.
func (e Env) printNext(dir string) {
	next := "rollout validate job.yaml"
	switch {
	case filepath.Clean(dir) == ".":
	case !filepath.IsLocal(dir):
		fmt.Fprintf(e.Stderr, "GitHub reads workflows at the top of a repository only: move %s there, and adapt its paths, if %s is not that\n",
			filepath.Join(dir, app.WorkflowPath), dir)
	default:
		fmt.Fprintf(e.Stderr, "GitHub reads workflows at the top of a repository only. If this directory is the top, run: mkdir -p %s && mv %s %s; then change \"job: job.yaml\" in it to \"job: %s\"\n",
			path.Dir(app.WorkflowPath), untrusted.ShellPath(filepath.Join(dir, app.WorkflowPath)), app.WorkflowPath, untrusted.Line(filepath.Join(dir, "job.yaml")))
	}
	if filepath.Clean(dir) != "." {
		next = "cd " + untrusted.ShellPath(dir) + " && " + next
	}
	fmt.Fprintf(e.Stderr, "next: %s && rollout job.yaml\n", next)
}
