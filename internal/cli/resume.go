package cli

import (
	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/app"
)

// resumeOptions are the flags of resume.
type resumeOptions struct {
	job      jobFlags
	jobFile  string
	rerun    rerunFlags
	view     viewFlags
	report   reportFlags
	failFast bool
	budget   budgetFlags
}

func newResumeCommand(v *invocation) *cobra.Command {
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
` + exitCodes,
		Example: `  rollout resume jobs/nightly
  rollout resume jobs/nightly --retry-errors agent_execution_timeout,agent_install_failed
  rollout resume jobs/nightly --rerun 'my-agent/fix-*' --rerun my-agent/evals/hello__2
  rollout resume jobs/nightly --budget-cost-usd 40
  rollout resume jobs/nightly --n-attempts 5 --junit junit.xml`,
		Args: maybeJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, _, err := v.jobAnd(cmd.Context(), args)
			if err != nil {
				return err
			}
			req, printed, err := opts.request(dir)
			if err != nil {
				return err
			}
			print := opts.report.files.printing(v.Stdout, printed)
			host, err := v.hostPrinting(opts.view.format, print)
			if err != nil {
				return err
			}
			finished, err := app.Resume(cmd.Context(), host, req)
			return v.conclude(finished, err, print)
		},
	}
	opts.rerun.add(cmd, "")
	addJobFile(cmd, &opts.jobFile)
	opts.job.addScheduling(cmd)
	addFailFast(cmd, &opts.failFast)
	opts.budget.add(cmd)
	opts.view.add(cmd)
	opts.report.add(cmd, v.Reporters)
	return cmd
}

// request returns what a command line asks for, and the name of the report to print; "" is none.
func (o *resumeOptions) request(dir string) (req app.ResumeRequest, printed string, err error) {
	req = app.ResumeRequest{Dir: dir, JobFile: o.jobFile, Rerun: o.rerun.request(), FailFast: o.failFast, LogFormat: o.view.given()}
	if req.Report, printed, err = o.report.options(); err != nil {
		return req, "", err
	}
	if req.Job, err = o.job.request(""); err != nil {
		return req, "", err
	}
	o.budget.addTo(&req.Job)
	return req, printed, nil
}
