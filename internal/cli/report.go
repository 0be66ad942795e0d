package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/app"
	"github.com/org/rollout-action/internal/core/report"
)

// reportOptions are the flags of report.
type reportOptions struct {
	format string
	asJSON bool
	report reportFlags
}

func newReportCommand(v *invocation) *cobra.Command {
	var opts reportOptions
	cmd := &cobra.Command{
		Use:   "report [JOB]",
		Short: "Report on a job again, from what is on disk",
		Long: `Print the summary of a job from the results in its directory, compare it with its baseline, check its
gate, and write reports. No trial is run. It also works for jobs that were cancelled, that still run or
whose run was killed: missing trials are counted as skipped and reported. Such a job never passes.
JOB is a job's directory, or its name below jobs/; without it, the newest job is taken.

The gate is the one in the job's config.json; flags win over it.
` + exitCodes,
		Example: `  rollout report jobs/nightly --junit junit.xml --markdown report.md
  rollout report jobs/pr --baseline jobs/main --max-broken-tasks 0 --format comment
  rollout report jobs/nightly --json | jq .pass_rate`,
		Args: maybeJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, _, err := v.jobAnd(cmd.Context(), args)
			if err != nil {
				return err
			}
			req, format, err := opts.request(dir)
			if err != nil {
				return err
			}
			return v.report(cmd.Context(), req, opts.printer(v, format))
		},
	}
	cmd.Flags().StringVar(&opts.format, "format", formatText, "what to print: text, or a report: "+v.Reporters.List())
	cmd.Flags().BoolVar(&opts.asJSON, "json", false, "print the job's result.json, made anew from the trials', instead of a summary; nothing is left in a workflow unless --github on says so")
	wants(cmd.Flags(), "format", "want "+formatList(v.Reporters))
	opts.report.add(cmd, v.Reporters)
	return cmd
}

// request returns what a command line asks for, and the format to print.
func (o *reportOptions) request(dir string) (req app.ReportRequest, format string, err error) {
	formats := o.report.files.formats
	if o.asJSON && o.format != formatText {
		return req, "", usage("--json and --format %s are two things to print: give one of them", clean(o.format))
	}
	if _, ok := formats.Find(o.format); !ok && o.format != formatText {
		return req, "", usage("--format %s: want %s", clean(o.format), formatList(formats))
	}
	opts, printed, err := o.report.options()
	if err != nil {
		return req, "", err
	}
	if o.asJSON && printed != "" {
		return req, "", usage("--json and --report %s are two things to print: name a file, as in --report %s=FILE", printed, printed)
	}
	// With --json, a program asks for numbers, maybe after a step that wrote to the workflow.
	req = app.ReportRequest{Dir: dir, Options: opts, Quiet: o.asJSON}
	format, err = toPrint(o.format, printed)
	return req, format, err
}

// printer returns how to print the job; nil: as a summary.
func (o *reportOptions) printer(v *invocation, format string) func(report.Input) error {
	if o.asJSON {
		return func(in report.Input) error { return v.printJSON(in.Job) }
	}
	return o.report.files.printing(v.Stdout, format)
}

// report reports on a job and prints its result; print is as in conclude.
func (v *invocation) report(ctx context.Context, req app.ReportRequest, print func(report.Input) error) error {
	finished, err := app.Report(ctx, v.host(), req)
	return v.conclude(finished, err, print)
}
