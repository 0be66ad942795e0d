package run

import (
	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/app/rerun"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/cli/flags"
)

// resumeOptions are the flags of resume.
type resumeOptions struct {
	job      flags.Job
	jobFile  string
	rerun    flags.Rerun
	view     flags.View
	report   flags.Report
	failFast bool
	budget   flags.Budget
}

// NewResumeCommand returns the command resume.
func NewResumeCommand(v *command.Invocation) *cobra.Command {
	var opts resumeOptions
	cmd := &cobra.Command{
		Use:   "resume [JOB]",
		Short: "Run the trials that a stopped, cancelled or killed job still lacks",
		Long: `Run the remaining trials of a job in its directory: trials that have no result, that were interrupted, or that failed
because of the infrastructure (environment_*, internal_error). Results stay. Failures of agents, verifiers and tasks
stay, too, because they are outcomes. Before a trial runs again, its directory is moved to superseded/.
JOB is a job's directory, or its name below jobs/; without it, the newest job is taken.

The job is read from its config.json. It must be the same work as when it started: the same configuration, and tasks
with the same files. Flags may change how it is run (n_concurrent_trials, budget, retry, log_level, gate, metrics, redact,
max_stream_size, environment.preserve_env, keep and min_free_disk), and n_attempts may grow. If no trial is
left, resume reports on the job as "rollout report" does.
` + command.RunCodes,
		Example: `  rollout resume jobs/nightly
  rollout resume jobs/nightly --retry-errors agent_execution_timeout,agent_install_failed
  rollout resume jobs/nightly --rerun 'my-agent/fix-*' --rerun my-agent/evals/hello__2
  rollout resume jobs/nightly --budget-cost-usd 40
  rollout resume jobs/nightly --n-attempts 5 --junit junit.xml`,
		Args: command.MaybeJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, _, err := v.JobAnd(cmd.Context(), args)
			if err != nil {
				return err
			}
			req, printed, err := opts.request(dir)
			if err != nil {
				return err
			}
			print := opts.report.Files.Printing(v.Stdout, printed)
			host, err := v.HostPrinting(opts.view.Format, print)
			if err != nil {
				return err
			}
			finished, err := rerun.Resume(cmd.Context(), host, req)
			return v.Conclude(finished, err, print)
		},
	}
	opts.rerun.Add(cmd, "")
	flags.AddJobFile(cmd, &opts.jobFile)
	opts.job.AddScheduling(cmd)
	flags.AddFailFast(cmd, &opts.failFast)
	opts.budget.Add(cmd)
	opts.view.Add(cmd)
	opts.report.Add(cmd, v.Reporters)
	return cmd
}

// request returns what a command line asks for, and the name of the report to print; "" is none.
func (o *resumeOptions) request(dir string) (req stages.ResumeRequest, printed string, err error) {
	req = stages.ResumeRequest{Dir: dir, JobFile: o.jobFile, Rerun: o.rerun.Request(), FailFast: o.failFast, LogFormat: o.view.Given()}
	if req.Report, printed, err = o.report.Options(); err != nil {
		return req, "", err
	}
	if req.Job, err = o.job.Request(""); err != nil {
		return req, "", err
	}
	o.budget.AddTo(&req.Job)
	return req, printed, nil
}
