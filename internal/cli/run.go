package cli

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/org/rollout-action/internal/app"
	"github.com/org/rollout-action/internal/core/report"
)

// runOptions are the flags of run.
type runOptions struct {
	job            jobFlags
	tasks          taskFlags
	saveJob        string
	shard, timings string
	resume         bool
	rerun          rerunFlags
	reuse          []string
	failFast       bool
	dryRun, asJSON bool
	budget         budgetFlags
	against        string
	confirmAgainst string
	view           viewFlags
	report         reportFlags
}

func newRunCommand(v *invocation) *cobra.Command {
	var opts runOptions
	cmd := &cobra.Command{
		Use:   "run JOB_FILE | DATASET... | TASK...",
		Short: "Run a job: every agent on every task, as often as asked",
		Long: `Run the trials of a job file (job.yaml or job.json; "-" reads it from stdin), and write
their results below jobs_dir. Flags win over the file. The configuration that was run is in config.json.

Without a job file it runs an agent on directories of tasks, on single tasks, or with --registry on datasets: --agent
names oracle or nop, and --execute describes an agent of your own, which --agent may name. --save-job writes the job file
of what is run.

With --shard 2/4 it runs the second of four parts, in a directory of its own; "rollout merge" puts the parts
together. The same job file and tasks are divided in the same way on every machine.

With --against it also runs the job file and the agents of a commit, on the same tasks and workers, and compares with them. That
costs up to twice as much; agents that are the same run once. With --confirm-against and a stored --baseline it tries only the tasks
that look broken or fixed again with the agents of a commit, beside today's.

With --resume it continues the job of that name if its directory exists, as "rollout resume" does, and starts it otherwise.

With --reuse it takes trials over from other jobs' directories instead of running them: those that passed or did not pass (never
errors) where the files of the task, the agent, the configuration and the image are the same. They are marked "reused"
everywhere, and their cost is not counted. Values of ${VAR} are compared only if redact.except names the variable.

With --dry-run it prints what would run, and what that may take and cost by earlier trials of the same agents and tasks: those
that the job has, those of --timings and --reuse, and those of the newest ten jobs in jobs_dir. If the job has a budget, it says
after how many trials the budget would stop it. It contacts no provider, runs nothing and writes nothing, except datasets of a
registry into the cache.
` + exitCodes,
		Example: `  rollout run job.yaml
  rollout run job.yaml --agent oracle --n-attempts 1 --set environment.override_memory=4G
  rollout run job.yaml --against origin/main
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
			req, printed, err := opts.request(args, v.Getenv)
			if err != nil {
				return err
			}
			if opts.dryRun && req.Against != "" {
				return usage("--dry-run plans one job: leave out --against, which runs up to twice as many trials")
			}
			if opts.asJSON && !opts.dryRun {
				return usage("--json is about what would run: it needs --dry-run (--report json=FILE writes a report of a job that runs)")
			}
			if opts.dryRun && req.ConfirmAgainst != "" {
				return usage("--dry-run plans the trials of one job: leave out --confirm-against, whose attempts depend on their results")
			}
			if opts.dryRun {
				return v.dryRun(cmd.Context(), req, opts.asJSON)
			}
			req.Arguments = v.arguments
			return v.run(cmd.Context(), req, opts.view.format, opts.report.files.printing(v.Stdout, printed))
		},
	}
	opts.job.add(cmd)
	opts.tasks.add(cmd)
	addTimings(cmd, &opts.timings)
	opts.rerun.add(cmd, "with --resume: ")
	addFailFast(cmd, &opts.failFast)
	opts.budget.add(cmd)
	grouped(cmd, flagsExisting, func(flags *pflag.FlagSet) {
		flags.BoolVar(&opts.resume, "resume", false, "continue the job of this name if its directory exists")
	})
	grouped(cmd, flagsRunning, func(flags *pflag.FlagSet) {
		flags.StringVar(&opts.saveJob, "save-job", "", "write what is run to this new job file")
		flags.StringArrayVar(&opts.reuse, "reuse", nil, "take trials that are the same from this job's directory instead of running them (repeatable)")
		flags.StringVar(&opts.shard, "shard", "", "run only this part of the job, as in 2/4, or auto for the part that the CI system numbers: merge puts the parts together")
		flags.BoolVar(&opts.dryRun, "dry-run", false, "print what would run, what it may take and whether the budget would stop it, and run nothing")
		flags.BoolVar(&opts.asJSON, "json", false, "with --dry-run: print JSON: dir, trials, tasks, estimate, budget and more")
	})
	grouped(cmd, flagsReports, func(flags *pflag.FlagSet) {
		flags.StringVar(&opts.against, "against", "", "run the job file and the agents of this commit, branch or tag beside, on the same tasks and workers, and compare with them")
		flags.StringVar(&opts.confirmAgainst, "confirm-against", "", "with --baseline: try tasks that look broken or fixed (gate.confirm) again with the agents of this commit, branch or tag, too")
	})
	opts.view.add(cmd)
	opts.report.add(cmd, v.Reporters)
	return cmd
}

// request returns what a command line asks for, and the name of the report to print; "" is none.
func (o *runOptions) request(args []string, getenv func(string) (string, bool)) (req app.RunRequest, printed string, err error) {
	req = app.RunRequest{SaveJob: o.saveJob, Timings: o.timings, Resume: o.resume, Rerun: o.rerun.request(), Reuse: o.reuse, FailFast: o.failFast, Against: o.against, ConfirmAgainst: o.confirmAgainst, LogFormat: o.view.given()}
	if req.Report, printed, err = o.report.options(); err != nil {
		return req, "", err
	}
	if req.Job, err = o.job.request(""); err != nil {
		return req, "", err
	}
	o.budget.addTo(&req.Job)
	if err := o.tasks.set(&req.Job, args); err != nil {
		return req, "", err
	}
	req.Shard, err = app.ParseShard(o.shard, getenv)
	return req, printed, err
}

// run runs a job and prints its result; print is as in conclude.
func (v *invocation) run(ctx context.Context, req app.RunRequest, format string, print func(report.Input) error) error {
	host, err := v.hostPrinting(format, print)
	if err != nil {
		return err
	}
	finished, err := app.Run(ctx, host, req)
	return v.conclude(finished, err, print)
}
