// Package setup has the commands that make what a job needs and remove what jobs have left: init,
// new, datasets, agents, cache and clean; and schema and version.
package setup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/mine"
	"github.com/org/rollout-action/internal/app/scaffold"
	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/cli/prove"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// NewInitCommand returns the command init.
func NewInitCommand(v *command.Invocation) *cobra.Command {
	var req scaffold.InitRequest
	var yes, fromHistory bool
	cmd := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Write a first job: a job.yaml, a dataset with one task, a workflow",
		Long: `Write job.yaml, the first script of an agent, a dataset of one task (evals/hello) and a GitHub workflow into a directory
(default: the current one). In a repository the workflow goes to its top. Files that exist are never written over: if one does,
nothing is written; but a workflow that exists is kept, and to a .gitignore a line is added. A task that cannot run is left out,
with the reason.

If the repository has files for an agent (CLAUDE.md, AGENTS.md, GEMINI.md, .claude, .codex, skills, .mcp.json and others), the job
runs that agent with and without them, and compares the two. Values of variables and headers of MCP servers are not copied:
the job file names variables. --preset chooses another agent, and --agent my-agent writes one without these files.

The provider is the first of docker and sandbox that works here. On a terminal it asks for the provider, where the tasks are, and
which agent runs; flags answer the questions, and --yes takes the defaults. Elsewhere, and in CI, it asks nothing. Nothing is
written before the last answer. The tasks may be a directory, NAME@VERSION of a dataset in Harbor's public registry, or
"REGISTRY NAME@VERSION" with the path, URL or repository (org/name@ref) of another one. With --mine they are made of the
repository's own history, as rollout mine does it, and written to evals/mined; that builds images and runs tests, and takes
minutes.
` + command.DoneCodes,
		Example: `  rollout init
  rollout init my-evals --yes && cd my-evals && rollout job.yaml
  rollout init --env-type sandbox --tasks ./evals --agent my-agent
  rollout init --preset claude-code
  rollout init evals --mine
  rollout init --tasks 'https://example.org/registry.json terminal-bench@2.0' --agent oracle`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return command.OneArg("at most a directory")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error { return runInit(cmd, v, args, &req, yes, &fromHistory) },
	}
	fs := cmd.Flags()
	fs.StringVar(&req.Provider, "env-type", "", "the provider to run on (default: the first of docker and sandbox that works here)")
	fs.StringVar(&req.Tasks, "tasks", "", "what to run instead of the example: a directory of tasks, one task, or a dataset of a registry, as NAME@VERSION (Harbor's) or as 'REGISTRY NAME@VERSION' with a path, a URL or a repository (org/name@ref)")
	fs.StringVar(&req.Agent, "agent", "", "oracle, or the name of your agent (default: "+scaffold.ExampleAgent+")")
	fs.StringVar(&req.Preset, "preset", "", "evaluate this agent that is ready to run, as in claude-code; rollout agents ls lists them (instead of --agent)")
	fs.BoolVar(&fromHistory, "mine", false, "make proven tasks of the repository's history, and run them instead of the example")
	fs.BoolVarP(&yes, "yes", "y", false, "ask nothing: what no flag answers has its default")
	return cmd
}

// runInit asks what no flag has answered, mines tasks if the answer is that, and writes the files.
func runInit(cmd *cobra.Command, v *command.Invocation, args []string, req *scaffold.InitRequest, yes bool, fromHistory *bool) error {
	if *fromHistory && req.Tasks != "" {
		return command.Usagef("--mine makes the tasks: leave out --tasks")
	}
	req.Dir = "."
	if len(args) == 1 {
		req.Dir = args[0]
	}
	host := v.Host()
	if err := scaffold.CheckInitDir(host, req.Dir); err != nil {
		return err
	}
	if !yes && asks(v.Env) {
		if err := askInit(cmd.Context(), v, host, cmd.Flags().Changed, req, fromHistory); err != nil {
			return err
		}
	}
	if *fromHistory {
		if err := mineTasks(cmd.Context(), v, host, req); err != nil {
			return err
		}
	}
	done, err := scaffold.Init(cmd.Context(), host, *req)
	for _, file := range done.Written {
		fmt.Fprintln(v.Stdout, file)
	}
	if err == nil {
		printSetup(v.Stderr, done)
		printNext(v.Env, req.Dir, done)
	}
	return err
}

// asks reports whether somebody is there to answer questions: standard input and stderr are a
// terminal, and this is not CI.
func asks(e command.Env) bool {
	in, ok := e.Stdin.(*os.File)
	return ok && e.Terminal != nil && e.Variable("CI") == "" && term.IsTerminal(int(in.Fd()))
}

// askInit asks what no flag has answered.
func askInit(ctx context.Context, v *command.Invocation, host *host.Host, answered func(flag string) bool, req *scaffold.InitRequest, fromHistory *bool) error {
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
		choice, err := scaffold.ChooseProvider(ctx, host)
		if err != nil {
			return err
		}
		for _, why := range choice.Refused {
			fmt.Fprintln(v.Stderr, "does not work here: "+why)
		}
		err = a.ask(ctx, "Provider", choice.Name, func(answer string) error {
			req.Provider = answer
			return scaffold.CheckInitProvider(host, answer)
		})
		if err != nil {
			return err
		}
	}
	if !answered("tasks") && !*fromHistory {
		err := a.ask(ctx, "Directory with your tasks, NAME@VERSION of a registry's dataset, or mine: make them of this repository's history (Enter: write an example)", "", func(answer string) error {
			if *fromHistory = answer == "mine"; *fromHistory {
				req.Tasks = ""
				return nil
			}
			req.Tasks = answer
			_, err := scaffold.CheckInitTasks(ctx, host, req.Dir, answer)
			return err
		})
		if err != nil {
			return err
		}
	}
	if !answered("agent") && !answered("preset") {
		usual := scaffold.ExampleAgent
		found, err := scaffold.FindSetup(ctx, host, req.Dir, "")
		if err != nil {
			return err
		}
		if found.Any() {
			fmt.Fprintf(v.Stderr, "Found for %s: %s. The job can run it with and without these files.\n", found.Preset, strings.Join(found.Found, ", "))
			usual = "preset:" + found.Preset
		}
		return a.ask(ctx, "Name of your agent, or preset:NAME of rollout agents ls (oracle: none yet, only the tasks' solutions)", usual, func(answer string) error {
			if preset, ok := strings.CutPrefix(answer, "preset:"); ok {
				req.Preset, req.Agent = strings.TrimSpace(preset), ""
				return scaffold.CheckInitPreset(req.Preset)
			}
			req.Agent = answer
			return scaffold.CheckInitAgent(answer)
		})
	}
	return nil
}

// mineTasks makes tasks of the history of the repository that has the directory, and makes them the
// tasks of the request.
func mineTasks(ctx context.Context, v *command.Invocation, h *host.Host, req *scaffold.InitRequest) error {
	if err := scaffold.CheckInit(h, *req); err != nil {
		return err
	}
	provider := req.Provider
	if provider == "" {
		choice, err := scaffold.ChooseProvider(ctx, h)
		if err != nil {
			return err
		}
		provider = choice.Name
	}
	showing, err := v.HostShowing("auto")
	if err != nil {
		return err
	}
	request := mine.Request{Repository: existing(h, req.Dir), Limit: prove.MineLimit, Out: filepath.Join(req.Dir, prove.MineOut)}
	request.Job.Overrides = []config.Override{
		{Path: "environment.type", Literal: provider, Origin: "--env-type"},
		{Path: "jobs_dir", Literal: filepath.Join(req.Dir, host.JobsDir), Origin: "--mine"}, // which init's .gitignore names
	}
	found, err := mine.Run(ctx, showing, request)
	if len(found.Candidates) > 0 {
		err = errors.Join(err, prove.PrintMined(v.Stderr, found, false))
	}
	if err != nil {
		return err
	}
	if !found.HasTasks() {
		if err := found.NotRun(); err != nil {
			return fmt.Errorf("no commit became a task: %w", err)
		}
		return command.Usagef("no commit became a task: the table says why of each. Without --mine, an example is written")
	}
	req.Tasks = found.Out
	return nil
}

// existing returns the first directory that exists among dir and those above it.
func existing(h *host.Host, dir string) string {
	for dir != filepath.Dir(dir) && !host.IsDir(h.Path(dir)) {
		dir = filepath.Dir(dir)
	}
	return dir
}

// printSetup says which files of the repository the job compares an agent with and without.
func printSetup(w io.Writer, done scaffold.Initialised) {
	s := done.Setup
	if s.Any() {
		fmt.Fprintf(w, "The job runs %s with and without what this repository has for it: %s\n", s.Preset, strings.Join(s.Found, ", "))
	}
	for _, left := range s.Left {
		fmt.Fprintf(w, "left out %s: %s\n", left.Name, left.Why)
	}
	if len(s.Variables) > 0 {
		fmt.Fprintf(w, "Its MCP servers get these variables of the machine: %s\n", strings.Join(s.Variables, ", "))
	}
	if len(s.Others) > 0 {
		fmt.Fprintf(w, "There are files for other agents, too; choose one with --preset: %s\n", strings.Join(s.Others, ", "))
	}
}

// printNext says what was chosen and left out, and what to do with the files that init wrote.
func printNext(e command.Env, dir string, done scaffold.Initialised) {
	next := "rollout validate job.yaml"
	switch {
	case done.Provider.None:
		fmt.Fprintf(e.Stderr, "No provider works here yet (%s): rollout doctor says more\n", strings.Join(done.Provider.Refused, "; "))
	case len(done.Provider.Refused) > 0:
		fmt.Fprintf(e.Stderr, "Trials run on %s, because this does not work here: %s\n", done.Provider.Name, strings.Join(done.Provider.Refused, "; "))
	}
	for _, name := range slices.Sorted(maps.Keys(done.Broken)) {
		fmt.Fprintf(e.Stderr, "left out the task %s: %s\n", untrusted.Line(name), untrusted.Line(done.Broken[name]))
	}
	switch {
	case done.Kept != "":
		fmt.Fprintf(e.Stderr, "%s exists already and was kept: add a job to it with: job: %s\n", untrusted.Line(done.Kept), untrusted.Line(done.Job))
	case done.Job != "" || filepath.Clean(dir) == ".":
	case !filepath.IsLocal(dir):
		fmt.Fprintf(e.Stderr, "GitHub reads workflows at the top of a repository only: move %s there, and adapt its paths, if %s is not that\n",
			filepath.Join(dir, scaffold.WorkflowPath), dir)
	default:
		fmt.Fprintf(e.Stderr, "GitHub reads workflows at the top of a repository only. If this directory is the top, run: mkdir -p %s && mv %s %s; then change \"job: job.yaml\" in it to \"job: %s\"\n",
			path.Dir(scaffold.WorkflowPath), untrusted.ShellPath(filepath.Join(dir, scaffold.WorkflowPath)), scaffold.WorkflowPath, untrusted.Line(filepath.Join(dir, "job.yaml")))
	}
	if done.Example && done.Job != "" {
		fmt.Fprintln(e.Stderr, "evals/hello is only an example: rollout new writes a task, and rollout mine makes tasks of this repository's history")
	}
	if filepath.Clean(dir) != "." {
		next = "cd " + untrusted.ShellPath(dir) + " && " + next
	}
	if len(done.Unset) > 0 {
		fmt.Fprintf(e.Stderr, "not set here: %s. Export them, or give rollout a file with --env-file. Without them, run the tasks alone:\n", strings.Join(done.Unset, ", "))
		fmt.Fprintf(e.Stderr, "next: %s && rollout run job.yaml --agent oracle --agent nop\n", next)
	} else {
		fmt.Fprintf(e.Stderr, "next: %s && rollout job.yaml\n", next)
	}
	fmt.Fprintln(e.Stderr, "If the check should only advise in the first weeks, and stay green, set gate.mode: advise in job.yaml")
}
