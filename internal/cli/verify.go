package cli

import (
	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/app"
)

// verifyOptions are the flags of verify.
type verifyOptions struct {
	job       jobFlags
	jobFile   string
	carryOver bool
	from      string
	view      viewFlags
	report    reportFlags
}

func newVerifyCommand(v *invocation) *cobra.Command {
	var opts verifyOptions
	cmd := &cobra.Command{
		Use:   "verify [JOB [TRIAL...]]",
		Short: "Run the tests of a job again, as they are today, on what its agents left",
		Long: `Run today's tests on what the agents of a job left, without running the agents again. Each TRIAL is a part of the name of one
trial, agent/dataset/task__attempt; without one, all trials are verified.
JOB is a job's directory, or its name below jobs/; without it, the newest job is taken.

The tests run in copies of what the job kept: the environments as the agents left them (environment.keep: outcome), or else as
the earlier tests left them (environment.preserve_env: always, or on_failure). The processes that the agent had left running
are gone. The results go into a new job beside the old one, which does not change: it can be reported, and compared with the
old one. The agents' cost stays in each result, and is not counted again.

With --from artifacts, the tests run in new environments with the artifacts that the tasks keep (artifacts in task.toml), at
the paths where they were. This is for tests that read nothing else of what the agent did.

Trials that ended before their tests are taken over as they are. Those that cannot be verified again are named with the
reason, and are missing in the new job; with --carry-over their old results are taken over instead.
` + exitCodes,
		Example: `  rollout verify jobs/nightly
  rollout verify jobs/nightly my-agent/evals/fix-the-build__1 --name fixed-tests
  rollout verify jobs/nightly --from artifacts
  rollout verify jobs/nightly --carry-over --baseline jobs/nightly`,
		Args: func(cmd *cobra.Command, args []string) error {
			for _, arg := range args {
				if arg == "" {
					return usage("%s: an argument is empty: leave it out, or give a part of a trial's name", cmd.CommandPath())
				}
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return nil, cobra.ShellCompDirectiveFilterDirs
			}
			return app.TrialNames(v.host().Paths, v.host().NamedJob(args[0]), prefix), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, trials, err := v.jobAnd(cmd.Context(), args)
			if err != nil {
				return err
			}
			req, printed, err := opts.request(dir, trials)
			if err != nil {
				return err
			}
			print := opts.report.files.printing(v.Stdout, printed)
			host, err := v.hostPrinting(opts.view.format, print)
			if err != nil {
				return err
			}
			finished, err := app.Verify(cmd.Context(), host, req)
			return v.conclude(finished, err, print)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.job.name, "name", "", "the name of the new job and of its directory (default: the old one's with -verified)")
	flags.IntVarP(&opts.job.concurrent, "n-concurrent", "", 0, "trials at a time")
	flags.StringArrayVar(&opts.job.envFiles, "env-file", nil, "read variables for the job file from this file of NAME=value lines; those of the environment win (repeatable)")
	addJobFile(cmd, &opts.jobFile)
	flags.StringVar(&opts.from, "from", "environments", "what the tests run on: copies of what was kept of the environments, or new ones with the artifacts of the trials (artifacts)")
	wants(flags, "from", "want environments or artifacts")
	flags.BoolVar(&opts.carryOver, "carry-over", false, "take over the results of trials that cannot be verified again")
	opts.job.changed = func(name string) bool { return name != "name" && flags.Changed(name) }
	opts.view.add(cmd)
	opts.report.add(cmd, v.Reporters)
	return cmd
}

// request returns what a command line asks for, and the name of the report to print; "" is none.
func (o *verifyOptions) request(dir string, trials []string) (req app.VerifyRequest, printed string, err error) {
	req = app.VerifyRequest{
		Dir: dir, Trials: trials, JobFile: o.jobFile, Name: o.job.name, CarryOver: o.carryOver, Artifacts: o.from == "artifacts",
	}
	if o.from != "artifacts" && o.from != "environments" {
		return req, "", usage("--from %s: want environments or artifacts", o.from)
	}
	if req.Report, printed, err = o.report.options(); err != nil {
		return req, "", err
	}
	req.Job, err = o.job.request("")
	return req, printed, err
}
