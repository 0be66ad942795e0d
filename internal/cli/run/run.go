// Package run has the commands that run a job: run, plan, resume, merge and shell.
package run

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/org/rollout-action/internal/app"
	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/cli/flags"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/reporters"
)

// runOptions are the flags of run.
type runOptions struct {
	job            flags.Job
	tasks          flags.Tasks
	saveJob        string
	shard, timings string
	since          string
	round          int
	resume         bool
	rerun          flags.Rerun
	reuse          []string
	failFast       bool
	dryRun, asJSON bool
	budget         flags.Budget
	against        string
	confirmAgainst string
	view           flags.View
	report         flags.Report
}

// NewRunCommand returns the command run.
func NewRunCommand(v *command.Invocation) *cobra.Command {
	var opts runOptions
	cmd := &cobra.Command{
		Use:   "run JOB_FILE | DATASET... | TASK...",
		Short: "Run a job: every agent on every task, as often as asked",
		Long: `Run the trials of a job file (job.yaml or job.json; "-" reads it from stdin), and write
their results below jobs_dir. Flags win over the file. The configuration that was run is in config.json.

Without a job file it runs an agent on directories of tasks, on single tasks, or with --registry on datasets: --agent
names oracle or nop, and --execute describes your own agent, which --agent may name. --save-job writes this job
as a job file.

With --shard 2/4 it runs the second of four parts, in its own directory; "rollout merge" puts the parts
together. The same job file and tasks are divided in the same way on every machine.

With --against it also runs the job file and the agents of a commit, on the same tasks and workers, and compares with them. That
costs up to twice as much; agents that are the same run once. With --confirm-against and a stored --baseline it tries only the tasks
that look broken or fixed again, with today's agents and with those of a commit.

With --changed it runs only the trials that what changed since a commit can affect, by the key affects of the job file ("rollout plan
--changed" says why each runs). The other tasks are "not affected": no comparison and no gate counts them.

With --resume it continues the job of that name if its directory exists, as "rollout resume" does, and starts it otherwise.

With --reuse it takes trials over from other jobs' directories instead of running them: those that passed or did not pass (never
errors) where the files of the task, the agent, the configuration and the image are the same. They are marked "reused"
everywhere, and their cost is not counted. --reuse baseline takes them from the baseline, of which the result.json is enough; if
nothing is left to run, the job ends at once. Values of ${VAR} are compared only if redact.except names the variable.

With --dry-run it prints the trials that would run, and estimates time and cost from earlier trials of the same agents and tasks: those
that the job has, those of --timings and --reuse, and those of the newest ten jobs in jobs_dir. If the job has a budget, it says
after how many trials the budget would stop it. It contacts no provider, runs nothing and writes nothing, except datasets of a
registry into the cache.
` + command.RunCodes,
		Example: `  rollout run job.yaml
  rollout run job.yaml --agent oracle --n-attempts 1 --set environment.override_memory=4G
  rollout run job.yaml --against origin/main
  rollout run job.yaml --changed main --baseline github:
  rollout run job.yaml --baseline jobs/main --max-broken-tasks 0 --confirm 4 --confirm-against origin/main
  rollout run job.yaml --budget-cost-usd 20 --budget-duration 90m
  rollout run job.yaml --shard 2/4 --timings results/main/result.json
  rollout run job.yaml --reuse jobs/main --reuse jobs/yesterday
  rollout run job.yaml --reuse jobs/main --dry-run
  rollout run evals/ --agent oracle
  rollout run evals/my-task --files ./agent --install 'pip install /agent' \
    --execute 'my-agent "$ROLLOUT_TASK_INSTRUCTION"' --agent-env API_KEY --save-job job.yaml
  rollout run --registry registry.json terminal-bench@2.0 -a oracle -l 10`,
		RunE: func(cmd *cobra.Command, args []string) error {
			isThere := func(name string) bool {
				path := v.Host().Path(name)
				return host.IsDir(path) || host.IsFile(path)
			}
			if err := flags.CheckOptional(cmd.Flags(), v.Arguments, args, isThere); err != nil {
				return err
			}
			req, printed, err := opts.request(args, v.Getenv)
			if err != nil {
				return err
			}
			if opts.dryRun {
				return dryRun(cmd.Context(), v, req, opts.asJSON)
			}
			req.Arguments, req.Report.Ran = v.Arguments, flags.Describing(cmd, args)
			return Run(cmd.Context(), v, req, opts.view.Format, opts.report.Files.Printing(v.Stdout, printed))
		},
	}
	opts.add(cmd, v.Reporters)
	return cmd
}

// add defines the flags of run.
func (o *runOptions) add(cmd *cobra.Command, formats reporters.Table) {
	o.job.Add(cmd)
	o.tasks.Add(cmd)
	addChanged(cmd, &o.since)
	flags.AddTimings(cmd, &o.timings)
	o.rerun.Add(cmd, "with --resume: ")
	flags.AddFailFast(cmd, &o.failFast)
	o.budget.Add(cmd)
	flags.Grouped(cmd, flags.ForExisting, func(fs *pflag.FlagSet) {
		fs.BoolVar(&o.resume, "resume", false, "continue the job of this name if its directory exists")
	})
	flags.Grouped(cmd, flags.ForRunning, func(fs *pflag.FlagSet) {
		fs.StringVar(&o.saveJob, "save-job", "", "write the job to this new job file")
		fs.StringArrayVar(&o.reuse, "reuse", nil, "take trials that are the same from this job's directory, or from the baseline (baseline), instead of running them (repeatable)")
		fs.StringVar(&o.shard, "shard", "", "run only this part of the job, as in 2/4, or auto for the part that the CI system numbers: merge puts the parts together")
		fs.IntVar(&o.round, "round", 0, "with --shard and gate.stop: make the attempts of the rounds until this one that the shard does not have yet; rollout merge --look tells which round is next")
		fs.BoolVar(&o.dryRun, "dry-run", false, "print the trials that would run, an estimate of time and cost, and whether the budget would stop the job; run nothing")
		fs.BoolVar(&o.asJSON, "json", false, "with --dry-run: print JSON: dir, trials, tasks, estimate, budget and more")
	})
	flags.Grouped(cmd, flags.ForReports, func(fs *pflag.FlagSet) {
		fs.StringVar(&o.against, "against", "", "also run the job file and the agents of this commit, branch or tag, on the same tasks and workers, and compare with them")
		fs.StringVar(&o.confirmAgainst, "confirm-against", "", "with --baseline: try tasks that look broken or fixed (gate.confirm) again with the agents of this commit, branch or tag, too")
	})
	o.view.Add(cmd)
	o.report.Add(cmd, formats)
}

// check refuses flags that do not fit together.
func (o *runOptions) check() error {
	switch {
	case o.round < 0 || o.round > 0 && o.shard == "":
		return command.Usagef("--round is for a shard, from 1: as in --shard 1/3 --round 1")
	case o.dryRun && o.against != "":
		return command.Usagef("--dry-run plans one job: leave out --against, which runs up to twice as many trials")
	case o.asJSON && !o.dryRun:
		return command.Usagef("--json prints the plan of --dry-run: add --dry-run (--report json=FILE writes a report of a job that runs)")
	case o.dryRun && o.confirmAgainst != "":
		return command.Usagef("--dry-run plans the trials of one job: leave out --confirm-against, whose attempts depend on their results")
	}
	return nil
}

// request returns what a command line asks for, and the name of the report to print; "" is none.
func (o *runOptions) request(args []string, getenv func(string) (string, bool)) (req stages.RunRequest, printed string, err error) {
	req = stages.RunRequest{SaveJob: o.saveJob, Timings: o.timings, Resume: o.resume, Rerun: o.rerun.Request(), Reuse: o.reuse, FailFast: o.failFast, Against: o.against, ConfirmAgainst: o.confirmAgainst, LogFormat: o.view.Given()}
	if req.Report, printed, err = o.report.Options(); err != nil {
		return req, "", err
	}
	if req.Job, err = o.job.Request(""); err != nil {
		return req, "", err
	}
	req.Job.Changed = o.since
	o.budget.AddTo(&req.Job)
	if err := o.tasks.Set(&req.Job, args); err != nil {
		return req, "", err
	}
	if req.Shard, err = host.ParseShard(o.shard, getenv); err != nil {
		return req, "", err
	}
	req.Round = o.round
	return req, printed, o.check()
}

// Run runs a job and prints its result; print is as in Invocation.Conclude.
func Run(ctx context.Context, v *command.Invocation, req stages.RunRequest, format string, print func(report.Input) error) error {
	host, err := v.HostPrinting(format, print)
	if err != nil {
		return err
	}
	finished, err := app.Run(ctx, host, req)
	return v.Conclude(finished, err, print)
}
