package proof

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/run/prove"
	"github.com/org/rollout-action/internal/run/trial"
)

// Checked is the result of Validate.
type Checked struct {
	File     string // as messages name it
	Implied  bool   // there is no job file: the request named tasks
	Agents   int
	Tasks    int
	Attempts int
	Trials   int
	// NoSolution are the tasks without a solution, which only the oracle needs.
	NoSolution int
	Judged     []stages.JudgedTasks
	Problems   diag.List // of the job and its tasks, errors and warnings
	// Broken are the tasks that have an error, with the first one.
	Broken map[string]string
	// Models are the answers of the models, sorted by name; nil if they were not asked.
	Models []stages.AskedModel
}

// Validate checks a job, or a directory of tasks, without starting anything. It asks a remote
// provider which features it lacks for the job and, if askModels is true, the models of the job for
// a token each. The error is a diag.List if the job itself is wrong.
func Validate(ctx context.Context, h *host.Host, req stages.JobRequest, askModels bool) (Checked, error) {
	if !req.HasJobFile(h.Paths) { // without models nothing can be judged
		req = req.WithoutJudges()
	}
	req.Unused, req.Unrun = !askModels, true
	l, err := stages.LoadTarget(ctx, h, req, stages.OracleAndNop()...)
	if err != nil {
		return Checked{}, err
	}
	defer l.Close()
	p, err := l.Plan()
	if err != nil {
		return Checked{}, err
	}
	tasks := l.Tasks()
	found, err := taskProblems(ctx, l)
	if err != nil {
		return Checked{}, host.Cancelled("cancelled before all tasks were checked")
	}
	checked := Checked{
		Judged: l.JudgedTasks(),
		File:   l.File, Implied: l.Implied, Problems: slices.Concat(l.Warnings, slices.Concat(found...)), Broken: map[string]string{},
		Agents: len(l.Job.Agents), Tasks: len(tasks), Attempts: l.Job.NAttempts, Trials: len(p.Specs),
	}
	for i, t := range tasks {
		if wrong := found[i].Errors(); len(wrong) > 0 {
			checked.Broken[t.Name] = wrong[0].Message
		}
		if !t.Missing && !t.HasSolution() {
			checked.NoSolution++
		}
	}
	checked.Problems = append(checked.Problems, unset(l)...)
	checked.Problems = append(checked.Problems, p.AskProvider(ctx)...)
	if askModels {
		asked, problems, err := l.AskModels(ctx)
		if err != nil {
			return Checked{}, err
		}
		checked.Models, checked.Problems = asked, append(checked.Problems, problems...)
		if len(asked) == 0 {
			checked.Problems = append(checked.Problems, diag.Diagnostic{File: l.File, Severity: diag.Warning, Message: "no agent has a model that could be asked", Hint: "see models: in the docs, or remove --models"})
		}
	}
	return checked, nil
}

// taskProblems returns the problems of each task once, however many agents would run it. The error
// is that of ctx.
func taskProblems(ctx context.Context, l *stages.Loaded) ([]diag.List, error) {
	oracle := !l.Implied && slices.ContainsFunc(l.Job.Agents, func(ag agent.Agent) bool { return ag.Name == agent.Oracle })
	tasks := l.Tasks()
	found := make([]diag.List, len(tasks))
	err := stages.EachTask(ctx, "Checking tasks", tasks, func(i int, t *task.Task) {
		found[i] = problemsOf(l.Host.Paths, t, l.Job, oracle)
	})
	return found, err
}

// problemsOf returns the problems of a task, whose trials by a job's agents would end without a
// verdict if one is an error. oracle: its solution runs, too.
func problemsOf(paths host.Paths, t *task.Task, job config.Job, oracle bool) diag.List {
	return slices.Concat(linted(paths, t), unrunnable(paths, t, oracle), unfit(paths, t, job))
}

// UnsetVariables returns the variables that tasks need at run time and that are not set here, each
// with the names of its tasks.
func UnsetVariables(l *stages.Loaded) map[string][]string {
	solutions := l.Implied || slices.ContainsFunc(l.Job.Agents, func(ag agent.Agent) bool { return ag.Name == agent.Oracle })
	users := map[string][]string{}
	for _, t := range l.Tasks() {
		for _, name := range t.Unset(solutions) {
			users[name] = append(users[name], t.Name)
		}
	}
	return users
}

// unset returns a warning about UnsetVariables; nil if all are set. Without a job file, it says
// what a job has to pass.
func unset(l *stages.Loaded) diag.List {
	users := UnsetVariables(l)
	var needed []string
	var pass []string
	for _, name := range slices.Sorted(maps.Keys(users)) {
		by := "task " + host.Clean(users[name][0])
		if n := len(users[name]); n > 1 {
			by = plural.Count(n, "task")
		}
		needed = append(needed, host.Clean(name)+" ("+by+")")
		if !slices.Contains(l.Job.Environment.PassEnv, name) {
			pass = append(pass, name)
		}
	}
	if len(needed) == 0 {
		return nil
	}
	if l.Implied && len(pass) > 0 {
		return diag.List{{
			File: l.File, Severity: diag.Warning, Message: "tasks need variables of the machine that runs them: " + strings.Join(needed, ", "),
			Hint: "if they may have them, write into the job: environment: {pass_env: [" + strings.Join(pass, ", ") + "]}",
		}}
	}
	return diag.List{{
		File: l.File, Severity: diag.Warning, Message: "tasks need variables that are not set here: " + strings.Join(needed, ", "),
		Hint: "where the job runs, export them, put them into a file for --env-file, or give defaults in task.toml: ${NAME:-…}",
	}}
}

// linted returns the findings of the lint rules for a task. Only those that prevent the task from
// running are errors; all others are warnings.
func linted(paths host.Paths, t *task.Task) diag.List {
	var problems diag.List
	for _, f := range prove.Lint(t) {
		if f.Ignored != "" {
			continue
		}
		d := diag.Diagnostic{File: host.Clean(paths.ShownTask(t, f.File)), Line: f.Line, Column: f.Column, Message: host.Clean(f.Message), Hint: host.Clean(f.Hint)}
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

// unfit returns the agents of a job that cannot run a task, as problems, and why its tests cannot.
func unfit(paths host.Paths, t *task.Task, job config.Job) diag.List {
	var problems diag.List
	if broken := t.Missing || t.Err() != nil; broken { // which linted reports
		return problems
	}
	if err := trial.NothingForTests(t, job); err != nil {
		problems = append(problems, diag.Diagnostic{File: host.Clean(paths.ShownTask(t, t.Files().Config)), Message: host.Clean(err.Message)})
	}
	for _, a := range job.Agents {
		if why := trial.Unfit(a, t); why != "" {
			problems = append(problems, diag.Diagnostic{File: host.Clean(paths.ShownTask(t, t.Files().Config)), Severity: diag.Warning, Message: host.Clean(why)})
		}
	}
	return problems
}

// unrunnable returns the problems that prevent a valid task, or its solution, from running. Only
// the oracle's trials need a solution.
func unrunnable(paths host.Paths, t *task.Task, oracle bool) diag.List {
	if broken := t.Missing || t.Err() != nil; broken { // which linted reports
		return nil
	}
	file := host.Clean(paths.ShownTask(t, ""))
	var problems diag.List
	if oracle && !t.HasSolution() {
		problems = append(problems, diag.Diagnostic{
			File: file, Severity: diag.Warning,
			Message: "there is no " + t.Files().Solution + ", so the oracle's trials of this task will fail", Hint: "add it, or do not run oracle on it",
		})
	}
	if oracle {
		problems = append(problems, t.SolutionProblems()...)
	}
	if t.Config.Environment.DockerImage == "" && !t.HasDockerfile() {
		message := "there is neither environment/Dockerfile nor environment.docker_image"
		if t.Format == task.FormatTerminalBench {
			message = "there is neither " + t.Files().Dockerfile() + " nor an image in docker-compose.yaml"
		}
		problems = append(problems, diag.Diagnostic{File: file, Message: message, Hint: "add one of them"})
	}
	return problems
}
