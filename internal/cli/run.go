package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/config"
	"github.com/org/rollout-action/internal/dataset"
	"github.com/org/rollout-action/internal/diag"
	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/internal/event"
	"github.com/org/rollout-action/internal/job"
	"github.com/org/rollout-action/internal/job/reuse"
	"github.com/org/rollout-action/internal/redact"
	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/internal/task"
	"github.com/org/rollout-action/internal/trial"
	"github.com/org/rollout-action/internal/ui"
	"github.com/org/rollout-action/internal/untrusted"
)

func (a *app) runCommand() *cobra.Command {
	var flags runFlags
	cmd := &cobra.Command{
		Use:   "run JOB_FILE",
		Short: "Run a job: every agent on every task, as often as asked",
		Long: `Run the trials of a job file (job.yaml or job.json; "-" reads it from stdin), and write
their results below jobs_dir. Flags win over the file. The configuration that was run is in config.json.

With --shard 2/4 it runs the second of four parts, in a directory of its own; "rollout merge" puts the parts
together. The same job file and tasks are divided in the same way on every machine.

With --resume it continues the job of that name if its directory exists, as "rollout resume" does, and starts it otherwise.

With --reuse it takes trials over from other jobs' directories instead of running them: those that passed or did not pass (never
errors) where the files of the task, the agent, the configuration and the image are the same. They are marked "reused"
everywhere, and their cost is not counted. Values of ${VAR} are compared only if redact.except names the variable.
` + exitCodes,
		Example: `  rollout run job.yaml
  rollout run job.yaml --agent oracle --n-attempts 1 --set environment.override_memory=4G
  rollout run job.yaml --shard 2/4 --timings results/main/result.json
  rollout run job.yaml --reuse jobs/main --reuse jobs/yesterday`,
		Args: oneArg("a job file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.run(cmd.Context(), args[0], flags)
		},
	}
	flags.job.add(cmd)
	flags.shard.add(cmd)
	cmd.Flags().BoolVar(&flags.resume, "resume", false, "continue the job of this name if its directory exists")
	flags.again.add(cmd, "with --resume: ")
	cmd.Flags().StringArrayVar(&flags.reuse, "reuse", nil, "take trials that are the same from this job's directory instead of running them (repeatable)")
	flags.job.addLogFormat(cmd)
	flags.report.add(cmd)
	return cmd
}

// runFlags are the flags of run.
type runFlags struct {
	job    jobFlags
	shard  shardFlags
	resume bool
	again  againFlags
	reuse  []string
	report reportFlags
}

// jobFlags are the flags that change a job file's keys.
type jobFlags struct {
	agents, tasks, excluded, sets []string
	attempts, concurrent          int
	name, jobsDir, envType        string
	taskFormat                    string // of validate's directories; empty: not given
	logFormat                     string
	gate                          []config.Override
	datasets, metadata            []string
	nTasks, sampleSeed            int
	pathsFrom                     string // where the file's relative paths begin; "": its directory
	changed                       func(string) bool
}

func (f *jobFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.agents, "agent", nil, "run only this agent of the job file, or oracle or nop (repeatable)")
	flags.StringArrayVar(&f.tasks, "task", nil, "run only tasks whose name matches this glob (repeatable)")
	flags.StringArrayVar(&f.excluded, "exclude-task", nil, "leave out tasks whose name matches this glob (repeatable)")
	f.addScheduling(cmd)
	flags.StringVar(&f.name, "name", "", "the name of the job and of its directory")
	flags.StringVar(&f.jobsDir, "jobs-dir", "", "the directory in which the job's directory is made")
	flags.StringVar(&f.envType, "env-type", "", "the provider to run on")
}

// addScheduling adds the flags that also a job that is there already can be given.
func (f *jobFlags) addScheduling(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.datasets, "dataset", nil, "run only datasets whose name matches this glob (repeatable)")
	flags.StringArrayVar(&f.metadata, "metadata", nil, "run only tasks of datasets with KEY=VALUE in [metadata] of task.toml (repeatable)")
	flags.IntVar(&f.nTasks, "n-tasks", 0, "run only a sample of so many tasks of each dataset")
	flags.IntVar(&f.sampleSeed, "sample-seed", 0, "which sample --n-tasks takes")
	flags.IntVar(&f.attempts, "n-attempts", 0, "attempts per agent and task")
	flags.IntVar(&f.concurrent, "n-concurrent", 0, "trials at a time")
	flags.StringArrayVar(&f.sets, "set", nil, "set any key, as in environment.override_cpus=2 (repeatable)")
	f.changed = flags.Changed
}

// selection returns what the flags say about datasets.
func (f *jobFlags) selection() config.Selection {
	s := config.Selection{Datasets: f.datasets, Metadata: f.metadata}
	if f.changed("n-tasks") {
		s.NTasks = &f.nTasks
	}
	if f.changed("sample-seed") {
		s.Seed = &f.sampleSeed
	}
	return s
}

func (f *jobFlags) addLogFormat(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.logFormat, "log-format", "auto", "how progress is shown: auto, live, plain or json")
}

// givenLogFormat returns the flag of addLogFormat, after a space, if it was given.
func (f *jobFlags) givenLogFormat() string {
	if f.changed == nil || !f.changed("log-format") {
		return ""
	}
	return " --log-format " + untrusted.ShellPath(f.logFormat)
}

// overrides returns the flags as keys of the job file, in a fixed order, --set last.
func (f *jobFlags) overrides() ([]config.Override, error) {
	var out []config.Override
	add := func(flag, path, value string) {
		if f.changed(flag) {
			out = append(out, config.Override{Path: path, Value: value, Origin: "--" + flag})
		}
	}
	add("n-attempts", "n_attempts", strconv.Itoa(f.attempts))
	add("n-concurrent", "n_concurrent_trials", strconv.Itoa(f.concurrent))
	add("name", "name", quoted(f.name))
	add("jobs-dir", "jobs_dir", quoted(f.jobsDir))
	add("env-type", "environment.type", quoted(f.envType))
	add("task", "include_tasks", quotedList(f.tasks))
	add("exclude-task", "exclude_tasks", quotedList(f.excluded))
	out = append(out, f.gate...)
	for _, set := range f.sets {
		path, value, ok := cutSet(set)
		if !ok {
			return nil, usage("--set %s: want path=value, as in --set environment.override_cpus=2", set)
		}
		out = append(out, config.Override{Path: path, Value: value, Origin: "--set " + set})
	}
	return out, nil
}

// session is a job that is ready to be planned.
type session struct {
	*config.Loaded
	path     string      // the job file as it was given; "-" is standard input
	implied  bool        // there is no job file: the job was made for a directory of tasks
	proof    bool        // the trials prove tasks
	report   reportFlags // how the command reports
	sets     []*dataset.Set
	taskDirs []string // of all tasks, also of those that are filtered out
	specs    []trial.Spec
	// shard is the part that is run, and shardOf says which part each of specs is in; nil: all is run.
	shard   *result.Shard
	shardOf []int

	rerun   string              // flags that a command which continues the job needs besides those of its report, each after a space
	command string              // that resumes the job; "" before its directory is there
	into    string              // the directory of a job that is resumed; "": the one that its name and jobs_dir say
	lock    *job.Lock           // of a directory that is there, and in which the job has not begun; nil: there is none
	todo    []trial.Spec        // what is left to run; nil: all of own
	earlier []result.Trial      // results that are there
	again   map[result.Key]bool // those of confirmation attempts that can be made again
	reuse   []reuse.Source      // where trials are taken over from
	confirm *confirmer          // which attempts confirm what looks broken; nil: none do
}

// prepare loads and checks everything that can be known before anything is started.
func (a *app) prepare(ctx context.Context, path string, flags jobFlags) (*session, error) {
	overrides, err := flags.overrides()
	if err != nil {
		return nil, err
	}
	checks := map[string]config.ProviderCheck{}
	for _, p := range a.Providers {
		checks[p.Name] = p.Check
	}
	var admit func(string) (string, error)
	if a.guard != nil {
		admit = a.guard.admit
	}
	loaded, err := config.Load(path, config.Options{
		Admit: admit, Stdin: a.Stdin, Dir: a.Dir, Getenv: a.Getenv, Now: a.Now,
		Providers: checks, Overrides: overrides, OnlyAgents: flags.agents, Selection: flags.selection(), PathsFrom: flags.pathsFrom, Recorded: flags.pathsFrom != "",
	})
	if err != nil {
		return nil, err
	}
	if a.onLoad != nil {
		a.onLoad(loaded)
	}
	if a.guard != nil && a.guard.checker != nil {
		if err := a.guard.hostFiles(loaded.Job); err != nil {
			return nil, err
		}
	}
	p := &session{Loaded: loaded, path: path}
	problems := loaded.Warnings
	sets, warnings, err := a.loadDatasets(ctx, loaded)
	if err != nil {
		var list diag.List
		if errors.As(err, &list) {
			return nil, append(problems, list...)
		}
		return nil, err
	}
	p.sets, problems = sets, append(problems, warnings...)
	if err := problems.Err(); err != nil {
		return nil, err
	}
	names := taskNames(p.sets)
	for i, set := range p.sets {
		p.taskDirs = append(p.taskDirs, set.Directories...)
		for _, t := range set.Tasks {
			p.taskDirs = append(p.taskDirs, t.Dir)
		}
		p.sets[i] = set.Filter(loaded.Job.IncludeTasks, loaded.Job.ExcludeTasks)
	}
	p.Warnings = problems
	p.specs = job.Plan(loaded.Job, p.sets, loaded.Env)
	if len(p.specs) == 0 {
		return nil, usage("%s: include_tasks and exclude_tasks (--task, --exclude-task) leave none of the tasks: %s", loaded.File, strings.Join(names, ", "))
	}
	if err := job.CheckNames(job.Keys(p.specs)); err != nil {
		return nil, usage("%s: %w", loaded.File, err)
	}
	return p, nil
}

// taskOptions returns the options with which a job loads tasks of a format.
func (a *app) taskOptions(cfg config.Job, format config.Format) task.Options {
	return task.Options{Format: task.Format(format), PassEnv: cfg.Environment.PassEnv, Getenv: a.Getenv}
}

// taskNames returns the names of the first few tasks, for a message.
func taskNames(sets []*dataset.Set) []string {
	var names []string
	for _, set := range sets {
		for _, name := range set.Names() {
			if len(names) == 20 {
				return append(names, "…")
			}
			names = append(names, clean(name))
		}
	}
	return names
}

func (a *app) run(ctx context.Context, path string, flags runFlags) error {
	if !flags.resume && (flags.again.onlyFailed || len(flags.again.retryErrors) > 0) {
		return usage("--retry-errors and --only-failed say what is run again of a job that is there: they need --resume")
	}
	again, err := flags.again.again()
	if err != nil {
		return err
	}
	if err := a.ready(flags.report); err != nil {
		return err
	}
	flags.job.gate = flags.report.gate.overrides()
	p, err := a.prepare(ctx, path, flags.job)
	if err != nil {
		return err
	}
	p.report = flags.report
	if err := a.split(p, flags.shard); err != nil {
		return err
	}
	if p.reuse, err = a.sources(flags.reuse, p.dir()); err != nil {
		return err
	}
	p.rerun = flags.again.given() + flags.job.givenLogFormat()
	if flags.resume {
		if done, err := a.resumeIfExists(ctx, p, again, flags.job.logFormat, flags.report); done {
			return err
		}
		defer p.lock.Release() //nolint:errcheck // only a file that means nothing is left
	}
	look, err := a.begin(p, flags.job.logFormat)
	if err != nil {
		return err
	}
	provider, err := a.connect(ctx, p, look)
	if err != nil {
		return err
	}
	defer provider.Close()
	tree, err := a.createTree(p)
	if err != nil {
		return err
	}
	return a.runAndReport(ctx, p, provider, tree, look, flags.report)
}

// runAndReport runs the trials of a job that is ready, and reports on it.
func (a *app) runAndReport(ctx context.Context, p *session, provider environment.Provider, tree *job.Tree, look ui.Options, report reportFlags) error {
	if tree.Lock.Unguarded != nil {
		a.warnf("nothing keeps two runs of this job apart: the file system of %s has no locks (%v)", p.dir(), tree.Lock.Unguarded)
	}
	defer func() {
		if a.hard.Err() != nil {
			a.warnf("the clean-up was skipped, so environments may still run: the next run removes them, or %s", environment.CleanCommand(p.Job.Environment.Type))
		}
	}()
	if p.confirm == nil {
		p.confirm = a.confirmer(p, report, nil)
	}
	err := a.takeOver(ctx, p, provider, tree)
	if err == nil {
		err = a.execute(ctx, p, provider, tree, look)
	}
	if closeErr := tree.Close(); closeErr != nil { // before the reports, which may take long
		a.warnf("end the job's files: %v", closeErr)
	}
	a.removeOwn(ctx, provider, p.Job.Name)
	if err != nil {
		_ = a.finish(ctx, p.dir(), report, ending{ran: true, baseline: p.confirm.found()}) // what there is
		return err
	}
	// What is left out on purpose does not make it a cancelled run.
	err = a.finish(ctx, p.dir(), report, ending{ran: true, cancelled: p.into == "" || ctx.Err() != nil, baseline: p.confirm.found()})
	if ctx.Err() != nil {
		fmt.Fprintf(a.Stderr, "Resume it with: %s\n", a.resumption(p.dir(), tree.Plan, report)+p.rerun)
	}
	return err
}

// removeOwn removes what trials could not remove, because the engine was down just then. A job that is
// cancelled has no time left for more than a look.
func (a *app) removeOwn(ctx context.Context, provider environment.Provider, name string) {
	limit := time.Minute
	if ctx.Err() != nil {
		limit = 400 * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(a.hard, limit)
	defer cancel()
	listed, err := provider.List(ctx)
	if err == nil {
		_, err = job.RemoveEnvironments(ctx, provider, job.OwnLeftovers(listed, name))
	}
	if err != nil && a.hard.Err() == nil {
		a.warnf("environments of this job may be left, the next run removes them: %v", err)
	}
}

func (a *app) createTree(p *session) (*job.Tree, error) {
	tree, err := a.beginTree(p)
	name := p.Job.Name
	for n := 2; errors.Is(err, job.ErrExists) && p.Unnamed && p.shard == nil && n < 100; n++ { // begun in the same second
		p.Job.Name = fmt.Sprintf("%s-%d", name, n)
		tree, err = a.beginTree(p)
	}
	if errors.Is(err, job.ErrExists) {
		return nil, usage("%w: a job is never written over; choose another --name, resume it (--resume), or remove the directory", err)
	}
	return tree, err
}

func (a *app) beginTree(p *session) (*job.Tree, error) {
	plan, err := a.record(p)
	if err != nil {
		return nil, err
	}
	var tree *job.Tree
	if p.lock != nil {
		tree, err = job.Begin(a.path(p.dir()), p.lock, p.Job, plan)
	} else {
		tree, err = job.Create(a.path(p.dir()), p.Job, plan)
	}
	if err != nil && !errors.Is(err, job.ErrExists) {
		err = fmt.Errorf("make the job's directory: %w", err)
	}
	return tree, err
}

// record returns the job's plan as it is written to disk.
func (a *app) record(p *session) (result.Plan, error) {
	here, err := filepath.Abs(a.path("."))
	if err != nil {
		return result.Plan{}, fmt.Errorf("find the current directory: %w", err)
	}
	from := here
	if p.path != "-" {
		from = filepath.Dir(a.path(p.path))
	}
	pathsFrom, err := job.PathsFrom(a.path(p.dir()), p.PathsFrom)
	if err != nil {
		return result.Plan{}, fmt.Errorf("make the job's directory %s: %w", a.path(p.dir()), err)
	}
	checkout := task.CheckoutAround(from)
	if a.guard != nil && a.guard.commit != "" {
		checkout = task.Checkout{Commit: &a.guard.commit} // not what the checkout says of itself
	}
	return job.Record(p.Job, p.specs, job.RecordOptions{
		StartedAt: a.Now(), Commit: checkout.Commit, Parents: a.parents(checkout), Dir: here, Shard: p.shard, ShardOf: p.shardOf, PathsFrom: pathsFrom, Compared: p.report.compares(), ProvesTasks: p.proof,
	})
}

// execute runs the trials while the terminal shows them.
func (a *app) execute(ctx context.Context, p *session, provider environment.Provider, tree *job.Tree, look ui.Options) error {
	for _, m := range p.Job.Metrics {
		look.Metrics = append(look.Metrics, m.Type)
	}
	look.Concurrency = p.Job.NConcurrentTrials
	show, endView := ui.New(look)
	defer endView()
	var mu sync.Mutex
	sinks := event.Tee(tree.Sink, show)
	emit := func(e event.Event) {
		mu.Lock()
		defer mu.Unlock()
		sinks(e)
	}
	redactor := redact.New(p.Secrets)
	todo := p.todo
	if todo == nil {
		todo = p.own()
	}
	var confirm func(context.Context, []result.Trial) ([]trial.Spec, error)
	if p.confirm != nil {
		confirm = func(ctx context.Context, trials []result.Trial) ([]trial.Spec, error) {
			return p.confirm.next(ctx, tree, emit, trials)
		}
	}
	_, err := job.Run(ctx, todo, job.Options{
		Earlier:  p.earlier,
		Tree:     tree,
		Workers:  p.Job.NConcurrentTrials,
		Emit:     emit,
		Now:      a.Now,
		Hard:     a.hard,
		Redactor: redactor,
		CheckDisk: func() error {
			if err := environment.Reachable(ctx, provider); err != nil {
				return fmt.Errorf("%w; what has not run stays pending; resume it with: %s", err, a.resumption(p.dir(), tree.Plan, p.report)+p.rerun)
			}
			return a.checkDisk(p, provider, a.resumption(p.dir(), tree.Plan, p.report)+p.rerun)
		},
		Reconfirm: p.again,
		Confirm:   confirm,
		Prompt:    job.Instructions(p.own(), redactor),
		Runner: trial.NewRunner(trial.Options{
			Provider: provider, Job: p.Job, Digests: trial.DigestsOf(p.Job, p.Visible, p.VisiblePassed), Redactor: redactor, Emit: emit, Now: a.Now, Hard: a.hard,
		}),
	})
	return err
}
