package prove

import (
	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/app/inspect"
	"github.com/org/rollout-action/internal/app/rerun"
	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/cli/flags"
)

// verifyOptions are the flags of verify.
type verifyOptions struct {
	job       flags.Job
	jobFile   string
	carryOver bool
	from      string
	view      flags.View
	report    flags.Report
}

// NewVerifyCommand returns the command verify.
func NewVerifyCommand(v *command.Invocation) *cobra.Command {
	var opts verifyOptions
	cmd := &cobra.Command{
		Use:   "verify [JOB [TRIAL...]]",
		Short: "Run the tests of a job again, as they are today, on the files that its agents left",
		Long: `Run today's tests on the files that the agents of a job left, without running the agents again. Each TRIAL is a part of the name of one
trial, agent/dataset/task__attempt; without one, all trials are verified.
JOB is a job's directory, or its name below jobs/; without it, the newest job is taken.

The tests run in copies of the environments that the job kept: as the agents left them (environment.keep: outcome), or else as
the earlier tests left them (environment.preserve_env: always, or on_failure). The processes that the agent had left running
are gone. The results go into a new job, and the old one does not change. The new job can be reported, and compared with the
old one. The agents' cost stays in each result, and is not counted again.

With --from artifacts, the tests run in new environments with the artifacts that the tasks keep (artifacts in task.toml), at
the paths where they were. This is for tests that read nothing else that the agent left. Tests that run in another environment
than the agent need no flag for it. Of a task with steps, the tests of each step run on what was kept of that step.

Trials that ended before their tests are taken over as they are. Those that cannot be verified again are named with the
reason, and are missing in the new job; with --carry-over their old results are taken over instead.
` + command.RunCodes,
		Example: `  rollout verify jobs/nightly
  rollout verify jobs/nightly my-agent/evals/fix-the-build__1 --name fixed-tests
  rollout verify jobs/nightly --from artifacts
  rollout verify jobs/nightly --carry-over --baseline jobs/nightly`,
		Args: func(cmd *cobra.Command, args []string) error {
			for _, arg := range args {
				if arg == "" {
					return command.Usagef("%s: an argument is empty: leave it out, or give a part of a trial's name", cmd.CommandPath())
				}
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return nil, cobra.ShellCompDirectiveFilterDirs
			}
			return inspect.TrialNames(v.Host().Paths, v.Host().NamedJob(args[0]), prefix), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, trials, err := v.JobAnd(cmd.Context(), args)
			if err != nil {
				return err
			}
			req, printed, err := opts.request(dir, trials)
			if err != nil {
				return err
			}
			print := opts.report.Files.Printing(v.Stdout, printed)
			host, err := v.HostPrinting(opts.view.Format, print)
			if err != nil {
				return err
			}
			finished, err := rerun.Verify(cmd.Context(), host, req)
			return v.Conclude(finished, err, print)
		},
	}
	fs := cmd.Flags()
	opts.job.AddNext(cmd, "-verified")
	flags.AddJobFile(cmd, &opts.jobFile)
	fs.StringVar(&opts.from, "from", "environments", "where the tests run: in copies of the environments that were kept, or in new ones with the artifacts of the trials (artifacts)")
	flags.Wants(fs, "from", "want environments or artifacts")
	fs.BoolVar(&opts.carryOver, "carry-over", false, "take over the results of trials that cannot be verified again")
	opts.view.Add(cmd)
	opts.report.Add(cmd, v.Reporters)
	return cmd
}

// request returns what a command line asks for, and the name of the report to print; "" is none.
func (o *verifyOptions) request(dir string, trials []string) (req rerun.VerifyRequest, printed string, err error) {
	req = rerun.VerifyRequest{
		Dir: dir, Trials: trials, JobFile: o.jobFile, Name: o.job.Name, CarryOver: o.carryOver, Artifacts: o.from == "artifacts",
	}
	if o.from != "artifacts" && o.from != "environments" {
		return req, "", command.Usagef("--from %s: want environments or artifacts", o.from)
	}
	if req.Report, printed, err = o.report.Options(); err != nil {
		return req, "", err
	}
	req.Job, err = o.job.Request("")
	return req, printed, err
}
