package cli

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/org/rollout-action/internal/agent"
	"github.com/org/rollout-action/internal/diag"
	"github.com/org/rollout-action/internal/plural"
	"github.com/org/rollout-action/internal/prove"
	"github.com/org/rollout-action/internal/task"
)

func (a *app) validateCommand() *cobra.Command {
	var flags jobFlags
	var how proveFlags
	cmd := &cobra.Command{
		Use:   "validate JOB_FILE | DATASET | TASK",
		Short: "Check a job file or tasks; with --run, prove the tasks",
		Long: `Check a job file and every task that it would run, or a directory of tasks, or one task, and print
all problems at once, each with its place and the way out. Nothing is started, no provider is contacted.

With --run every task is proven as well: its solution must score 1 in each of --runs runs, and doing nothing in
none of --nop-runs. The runs and their logs are kept in a job's directory. Exit code 1 means that a task is not proven,
3 that the infrastructure failed, so that the result is not known.

What is looked for; task.toml switches a rule off with: [metadata.lint.ignore] RULE = "the reason"
` + ruleTable() + proofCodes,
		Example: `  rollout validate job.yaml
  rollout validate job.yaml --set environment.type=docker
  rollout validate --run evals/ --env-type sandbox`,
		Args: oneArg("a job file or a directory of tasks"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if how.run {
				return a.prove(cmd.Context(), args[0], flags, &how)
			}
			if err := how.needRun(); err != nil {
				return err
			}
			return a.validate(cmd.Context(), args[0], flags, how.format == formatJSON)
		},
	}
	flags.add(cmd)
	flags.addLogFormat(cmd)
	cmd.Flags().StringVar(&flags.taskFormat, "task-format", "", "whose rules the tasks of a directory follow: rollout (the default) or harbor")
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

// findings is what validate says when nothing is run.
type findings struct {
	SchemaVersion int       `json:"schema_version"`
	Valid         bool      `json:"valid"` // whether the command ends with 0
	Agents        int       `json:"agents"`
	Tasks         int       `json:"tasks"`
	NoSolution    int       `json:"tasks_without_solution"` // which only the oracle minds
	Attempts      int       `json:"attempts"`
	Trials        int       `json:"trials"`
	Problems      []problem `json:"problems"` // in the order in which the text has them; never null
}

// problem is a diag.Diagnostic. Line and Column count from 1; 0: the whole file.
type problem struct {
	Severity prove.Severity `json:"severity"`
	File     string         `json:"file"`
	Line     int            `json:"line"`
	Column   int            `json:"column"`
	Message  string         `json:"message"`
	Hint     string         `json:"hint"`
}

func problemsOf(list diag.List) []problem {
	out := make([]problem, len(list))
	for i, d := range list {
		severity := prove.Error
		if d.Severity == diag.Warning {
			severity = prove.Warning
		}
		out[i] = problem{Severity: severity, File: d.File, Line: d.Line, Column: d.Column, Message: d.Message, Hint: d.Hint}
	}
	return out
}

func (a *app) validate(ctx context.Context, path string, flags jobFlags, asJSON bool) error {
	found := findings{SchemaVersion: 1}
	p, err := a.prepareTarget(ctx, path, flags)
	var wrong diag.List
	switch {
	case asJSON && errors.As(err, &wrong): // the job itself is wrong
		found.Problems = problemsOf(wrong)
		return errors.Join(a.printJSON(found), &failure{code: exitUsage})
	case err != nil:
		return err
	}
	problems := slices.Concat(p.Warnings, a.taskProblems(p))
	for i := range problems {
		problems[i].File = a.shown(problems[i].File)
	}
	found.Valid = len(problems.Errors()) == 0
	found.Agents, found.Tasks, found.Attempts, found.Trials = len(p.Job.Agents), p.tasks(), p.Job.NAttempts, len(p.specs)
	for _, t := range allTasks(p.sets) {
		if !t.Missing && !t.HasSolution() {
			found.NoSolution++
		}
	}
	if asJSON {
		found.Problems = problemsOf(problems)
		err = a.printJSON(found)
	} else {
		for _, d := range problems {
			fmt.Fprintln(a.Stdout, d)
		}
		fmt.Fprintln(a.Stdout, found.summary(p, len(problems.Errors())))
	}
	if err == nil && !found.Valid {
		err = &failure{code: exitUsage}
	}
	return err
}

// summary returns the last line of the text.
func (f findings) summary(p *session, wrong int) string {
	switch without := ""; {
	case wrong > 0:
		return fmt.Sprintf("%s: %s", clean(p.File), plural.Count(wrong, "problem"))
	case p.implied:
		if f.NoSolution > 0 {
			without = fmt.Sprintf(", %d without a solution", f.NoSolution)
		}
		return fmt.Sprintf("%s is valid: %s%s (--run proves them)", clean(p.File), plural.Count(f.Tasks, "task"), without)
	}
	return fmt.Sprintf("%s is valid: %s × %s × %s = %s", clean(p.File), plural.Count(f.Agents, "agent"), plural.Count(f.Tasks, "task"), plural.Count(f.Attempts, "attempt"), plural.Count(f.Trials, "trial"))
}

// taskProblems returns the problems of the tasks, each once, however many agents would run it.
func (a *app) taskProblems(p *session) diag.List {
	oracle := !p.implied && slices.ContainsFunc(p.Job.Agents, func(ag agent.Agent) bool { return ag.Name == agent.Oracle })
	tasks := allTasks(p.sets)
	found := make([]diag.List, len(tasks))
	var group errgroup.Group
	group.SetLimit(2 * runtime.GOMAXPROCS(0)) // reading files is mostly system calls
	for i, t := range tasks {
		group.Go(func() error {
			found[i] = append(a.linted(t), a.unrunnable(t, oracle)...)
			return nil
		})
	}
	_ = group.Wait() // of functions that return nil
	return slices.Concat(found...)
}

// linted returns what the lint rules find in a task. Only what keeps the task from being run is an error here; the rest warns.
func (a *app) linted(t *task.Task) diag.List {
	var problems diag.List
	for _, f := range prove.Lint(t) {
		if f.Ignored != "" {
			continue
		}
		d := diag.Diagnostic{File: clean(a.shownTask(t, f.File)), Line: f.Line, Column: f.Column, Message: clean(f.Message), Hint: clean(f.Hint)}
		if f.Rule != prove.TaskFormat {
			d.Message += " [" + f.Rule + "]"
		}
		if f.Severity == prove.Warning || !prove.PreventsRun(f.Rule) {
			d.Severity = diag.Warning
		}
		problems = append(problems, d)
	}
	return problems
}

// unrunnable returns what keeps a correctly written task, or its solution, from being run. Only the oracle's trials need a
// solution.
func (a *app) unrunnable(t *task.Task, oracle bool) diag.List {
	if broken := t.Missing || t.Err() != nil; broken { // which linted reports
		return nil
	}
	file := clean(a.shownTask(t, ""))
	var problems diag.List
	if oracle && !t.HasSolution() {
		problems = append(problems, diag.Diagnostic{
			File: file, Severity: diag.Warning,
			Message: "there is no solution/solve.sh, so the oracle's trials of this task will fail", Hint: "add it, or do not run oracle on it",
		})
	}
	if oracle {
		problems = append(problems, t.SolutionProblems()...)
	}
	if t.Config.Environment.DockerImage == "" && !t.HasDockerfile() {
		problems = append(problems, diag.Diagnostic{File: file, Message: "there is neither environment/Dockerfile nor environment.docker_image", Hint: "add one of them"})
	}
	return problems
}

func (p *session) tasks() int {
	n := 0
	for _, set := range p.sets {
		n += len(set.Tasks)
	}
	return n
}
