package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/org/rollout-action/internal/agent"
	"github.com/org/rollout-action/internal/diag"
	"github.com/org/rollout-action/internal/prove"
	"github.com/org/rollout-action/internal/task"
)

func (a *app) validateCommand() *cobra.Command {
	var flags jobFlags
	var how proveFlags
	cmd := &cobra.Command{
		Use:   "validate JOB_FILE | DATASET | TASK",
		Short: "Check a job file or tasks; with --run, prove the tasks",
		Long: `Check a job file and every task that it would run, or a folder of tasks, or one task, and print
all problems at once, each with its place and the way out. Nothing is started, no provider is contacted.

With --run every task is proven as well: its solution must score 1 in each of --runs runs, and doing nothing in
none of --nop-runs. The runs and their logs are kept in a job's folder. Exit code 1 says that a task is not proven,
3 that nothing can be said because the infrastructure failed.

What is looked for; task.toml switches a rule off with: [metadata.lint.ignore] RULE = "the reason"
` + ruleTable() + proofCodes,
		Example: `  rollout validate job.yaml
  rollout validate job.yaml --set environment.type=docker
  rollout validate --run evals/ --env-type sandbox`,
		Args: oneArg("a job file or a folder of tasks"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if how.run {
				return a.prove(cmd.Context(), args[0], flags, &how)
			}
			if err := how.needRun(); err != nil {
				return err
			}
			return a.validate(cmd.Context(), args[0], flags)
		},
	}
	flags.add(cmd)
	flags.addLogFormat(cmd)
	cmd.Flags().StringVar(&flags.taskFormat, "task-format", "", "whose rules the tasks of a folder follow: rollout (the default) or harbor")
	how.add(cmd)
	return cmd
}

// ruleTable lists the rules for help.
func ruleTable() string {
	var b strings.Builder
	for _, r := range prove.Rules {
		fmt.Fprintf(&b, "  %-18s %s\n", r.ID, r.Doc)
	}
	return b.String()
}

func (a *app) validate(ctx context.Context, path string, flags jobFlags) error {
	p, err := a.prepareTarget(ctx, path, flags)
	if err != nil {
		return err
	}
	problems := slices.Concat(p.Warnings, a.taskProblems(p))
	for _, d := range problems {
		fmt.Fprintln(a.Stdout, d)
	}
	if n := len(problems.Errors()); n > 0 {
		fmt.Fprintf(a.Stdout, "%s: %s\n", p.File, plural(n, "problem"))
		return &failure{code: exitUsage}
	}
	if p.folder {
		fmt.Fprintf(a.Stdout, "%s is valid: %s (--run proves them)\n", clean(p.File), plural(p.tasks(), "task"))
		return nil
	}
	fmt.Fprintf(a.Stdout, "%s is valid: %s × %s × %s = %s\n", p.File, plural(len(p.Job.Agents), "agent"),
		plural(p.tasks(), "task"), plural(p.Job.NAttempts, "attempt"), plural(len(p.specs), "trial"))
	return nil
}

// taskProblems are what is wrong with the tasks: each once, however many agents would run it.
func (a *app) taskProblems(p *prepared) diag.List {
	oracle := slices.ContainsFunc(p.Job.Agents, func(ag agent.Agent) bool { return ag.Name == agent.Oracle })
	tasks := allTasks(p.sets)
	found := make([]diag.List, len(tasks))
	var group errgroup.Group
	group.SetLimit(2 * runtime.GOMAXPROCS(0)) // reading files is mostly system calls
	for i, t := range tasks {
		group.Go(func() error {
			found[i] = append(a.linted(t), unrunnable(t, oracle)...)
			return nil
		})
	}
	_ = group.Wait() // of functions that return nil
	return slices.Concat(found...)
}

// linted is what a task's files tell, of which only what keeps it from being run is a problem here.
func (a *app) linted(t *task.Task) diag.List {
	var problems diag.List
	for _, f := range prove.Lint(t) {
		if f.Ignored != "" {
			continue
		}
		d := diag.Diagnostic{File: filepath.Join(a.shownDir(t.Dir), filepath.FromSlash(f.File)), Line: f.Line, Column: f.Column, Message: clean(f.Message), Hint: clean(f.Hint)}
		if f.Rule != prove.TaskFormat {
			d.Message += " [" + f.Rule + "]"
		}
		if f.Rule != prove.TaskFormat || f.Severity == prove.Warning {
			d.Severity = diag.Warning
		}
		problems = append(problems, d)
	}
	return problems
}

// unrunnable is what keeps a task that is written correctly from being run.
func unrunnable(t *task.Task, oracle bool) diag.List {
	var problems diag.List
	written := !t.Missing && t.Err() == nil
	if written && oracle && !t.HasSolution() {
		problems = append(problems, diag.Diagnostic{File: t.Dir, Message: "there is no solution/solve.sh for the oracle agent", Hint: "add it, or do not run oracle"})
	}
	if written && oracle {
		problems = append(problems, t.SolutionProblems()...)
	}
	if written && t.Config.Environment.DockerImage == "" && !t.HasDockerfile() {
		problems = append(problems, diag.Diagnostic{File: t.Dir, Message: "there is neither environment/Dockerfile nor environment.docker_image", Hint: "add one of them"})
	}
	return problems
}

func (p *prepared) tasks() int {
	n := 0
	for _, set := range p.sets {
		n += len(set.Tasks)
	}
	return n
}
