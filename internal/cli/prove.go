package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/org/rollout-action/internal/agent"
	"github.com/org/rollout-action/internal/dataset"
	"github.com/org/rollout-action/internal/diag"
	"github.com/org/rollout-action/internal/gate"
	jobs "github.com/org/rollout-action/internal/job"
	"github.com/org/rollout-action/internal/prove"
	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/internal/task"
	"github.com/org/rollout-action/internal/trial"
	"github.com/org/rollout-action/internal/ui"
	"github.com/org/rollout-action/reporters/provereport"
)

// prove runs oracle and nop on every task of a dataset, and reports which tasks are proven.
func (a *app) prove(ctx context.Context, target string, flags jobFlags, how *proveFlags) error {
	if err := how.check(flags); err != nil {
		return err
	}
	p, err := a.prepareProof(ctx, target, flags, how)
	if err != nil {
		return err
	}
	a.printWarnings(p.Warnings)
	look, err := a.view(flags.logFormat)
	if err != nil {
		return err
	}
	look.Level = logLevel(p.Job.LogLevel)
	dir := ""
	if len(p.specs) > 0 {
		if dir, err = a.runProof(ctx, p, look); dir == "" {
			return err
		}
	}
	return errors.Join(err, a.finishProof(p, dir, how, err == nil))
}

// prepareProof returns the job that proves the target's tasks: oracle and nop on each that can be run.
func (a *app) prepareProof(ctx context.Context, target string, flags jobFlags, how *proveFlags) (*session, error) {
	flags.agents = []string{agent.Oracle, agent.Nop}
	flags.attempts = max(how.runs, how.nopRuns)
	given := flags.changed
	flags.changed = func(flag string) bool { return given(flag) || flag == "n-attempts" || flag == "name" }
	if !given("name") {
		flags.name = "validate-" + a.Now().Format("2006-01-02__15-04-05")
	}
	p, err := a.prepareTarget(ctx, target, flags)
	if err != nil {
		return nil, err
	}
	if err := a.selectTasks(ctx, p, how); err != nil {
		return nil, err
	}
	p.Job.Verifier.Disable = false // whatever the job file is for
	p.Job.Gate = gate.Policy{Confidence: gate.DefaultConfidence, Noise: gate.NoiseTest, OnInconclusive: gate.Pass}
	p.proof = true
	p.specs = slices.DeleteFunc(jobs.Plan(p.Job, p.sets, p.Env), func(s trial.Spec) bool { return !how.wants(s) })
	if how.offline {
		p.specs = append(p.specs, offline(p.specs)...)
	}
	return p, nil
}

// offlineAgent is what runs of oracle without a network are filed under.
const offlineAgent = "oracle-offline"

// offline returns the first run of each solution once more, without a network.
func offline(specs []trial.Spec) []trial.Spec {
	var out []trial.Spec
	for _, s := range specs {
		if s.Key.Agent == agent.Oracle && s.Key.Attempt == 1 {
			s.Key.Agent, s.Offline = offlineAgent, true
			out = append(out, s)
		}
	}
	return out
}

// wants reports whether validate --run runs a trial.
func (f *proveFlags) wants(s trial.Spec) bool {
	switch {
	case s.Task.Missing || s.Task.Err() != nil:
		return false
	case s.Key.Agent == agent.Oracle:
		return s.Key.Attempt <= f.runs && s.Task.HasSolution()
	}
	return s.Key.Attempt <= f.nopRuns
}

// prepareTarget prepares a job file, or a job for a directory of tasks or a task.
func (a *app) prepareTarget(ctx context.Context, target string, flags jobFlags) (*session, error) {
	info, err := os.Stat(a.path(target))
	if filepath.Base(target) == "task.toml" && err == nil && !info.IsDir() {
		return nil, diag.List{{File: target, Message: "is a file of a task, not a job file", Hint: "give the task's directory: " + filepath.Dir(target)}}
	}
	if target == "-" || err != nil || !info.IsDir() {
		if flags.taskFormat != "" {
			return nil, usage("--task-format is for a directory of tasks; a job file says it itself, with datasets[].format and tasks_format")
		}
		return a.prepare(ctx, target, flags)
	}
	abs, err := filepath.Abs(a.path(target))
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", target, err)
	}
	list, format := "datasets: [{path: "+quoted(abs)+"}]", "datasets.0.format"
	isTask, err := task.IsTask(os.DirFS(abs), ".")
	if err != nil {
		return nil, err
	}
	if isTask {
		list, format = "tasks: ["+quoted(abs)+"]", "tasks_format"
	}
	if flags.taskFormat != "" {
		flags.sets = append([]string{format + "=" + flags.taskFormat}, flags.sets...)
	}
	from := *a
	from.Stdin = strings.NewReader("agents: [{name: oracle}, {name: nop}]\n" + list + "\n")
	p, err := from.prepare(ctx, "-", flags)
	if err != nil {
		return nil, err
	}
	for i := range p.Warnings {
		if p.Warnings[i].File == p.File { // the job that nobody wrote
			p.Warnings[i].File, p.Warnings[i].Line, p.Warnings[i].Column = target, 0, 0
		}
	}
	p.implied, p.File, p.path = true, target, filepath.Join(abs, "task.toml") // whose directory says which repository it is
	return p, nil
}

// runProof runs the trials in a job's directory, which it returns once it is made.
func (a *app) runProof(ctx context.Context, p *session, look ui.Options) (dir string, err error) {
	provider, err := a.connect(ctx, p, look)
	if err != nil {
		return "", err
	}
	defer provider.Close()
	tree, err := a.createTree(p)
	if err != nil {
		return "", err
	}
	defer tree.Close()
	err = a.execute(ctx, p, provider, tree, look)
	a.removeOwn(ctx, provider, p.Job.Name)
	return p.dir(), err
}

// finishProof reports what the runs have shown, and returns the outcome if they are whole; dir is "" if there were none.
func (a *app) finishProof(p *session, dir string, how *proveFlags, whole bool) error {
	var tree result.Tree
	if dir != "" {
		var err error
		if tree, err = a.readTree(dir); err != nil {
			return err
		}
	}
	report := prove.Report{
		Tasks: a.taskReports(p, tree, how), Dir: dir, Notes: how.notes, StartedAt: tree.Plan.StartedAt,
		Cancelled: result.Summarize(tree.Plan, tree.Trials).Cancelled,
	}
	err := a.deliverProof(&report, how)
	if how.format == formatText {
		color, width := a.stdoutStyle()
		ui.ProveReport(a.Stdout, report, color, width)
	} else {
		err = errors.Join(err, provereport.Formats[how.format](a.Stdout, report))
	}
	if err != nil || !whole {
		return err
	}
	return proveOutcome(report.Outcome())
}

// taskReports checks every task, in the job's order.
func (a *app) taskReports(p *session, tree result.Tree, how *proveFlags) []prove.TaskReport {
	type name struct{ dataset, task string }
	byTask := map[name][]result.Trial{}
	slices.SortFunc(tree.Trials, func(a, b result.Trial) int { return a.Key.Compare(b.Key) })
	for _, t := range tree.Trials {
		n := name{t.Dataset, t.Task}
		byTask[n] = append(byTask[n], t)
	}
	var out []prove.TaskReport
	var group errgroup.Group
	group.SetLimit(2 * runtime.GOMAXPROCS(0)) // reading files is mostly system calls
	for _, set := range p.sets {
		out = slices.Grow(out, len(set.Tasks))
		for _, t := range set.Tasks {
			out = append(out, prove.TaskReport{Dataset: set.Name, Task: t.Name, Dir: a.shownTask(t, ""), Path: t.RepoPath, Fetched: t.Origin != nil, Runs: how.runsOf(byTask[name{set.Name, t.Name}])})
		}
	}
	tasks := allTasks(p.sets)
	for i := range out {
		group.Go(func() error {
			out[i].Verdict, out[i].Findings = prove.Check(tasks[i], out[i].Runs)
			return nil
		})
	}
	_ = group.Wait() // of functions that return nil
	return out
}

func allTasks(sets []*dataset.Set) []*task.Task {
	var tasks []*task.Task
	for _, set := range sets {
		tasks = append(tasks, set.Tasks...)
	}
	return tasks
}

// runsOf sorts a task's trials by agent.
func (f *proveFlags) runsOf(trials []result.Trial) prove.Runs {
	runs := prove.Runs{OracleWanted: f.runs, NopWanted: f.nopRuns}
	for _, t := range trials {
		switch t.Agent {
		case agent.Oracle:
			runs.Oracle = append(runs.Oracle, t)
		case offlineAgent:
			runs.Offline = append(runs.Offline, t)
		case agent.Nop:
			runs.Nop = append(runs.Nop, t)
		}
	}
	return runs
}

// shownTask returns the path of a task's file for messages; "" is the task itself.
func (a *app) shownTask(t *task.Task, name string) string {
	if t.Origin != nil {
		return t.File(name)
	}
	return filepath.Join(a.shownDir(t.Dir), filepath.FromSlash(name))
}

// shownDir returns a directory as users would type it: relative to the current directory, if it is below it.
func (a *app) shownDir(dir string) string {
	here, err := filepath.Abs(a.path("."))
	if err != nil {
		return dir
	}
	rel, err := filepath.Rel(here, a.guard.shown(dir))
	if err != nil || !filepath.IsLocal(rel) {
		return dir
	}
	return filepath.ToSlash(rel)
}

// proveOutcome returns the command's outcome.
func proveOutcome(outcome prove.Outcome) error {
	switch outcome {
	case prove.Passed:
		return nil
	case prove.Stopped:
		return &failure{code: exitCancelled}
	case prove.Incomplete:
		return &failure{code: exitFailed}
	}
	return &failure{code: exitGate}
}
