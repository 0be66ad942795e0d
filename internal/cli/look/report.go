package look

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/cli/flags"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// reportOptions are the flags of report.
type reportOptions struct {
	format string
	asJSON bool
	report flags.Report
}

// NewReportCommand returns the command report.
func NewReportCommand(v *command.Invocation) *cobra.Command {
	var opts reportOptions
	cmd := &cobra.Command{
		Use:   "report [JOB]",
		Short: "Report on a job again, from its files",
		Long: `Print the summary of a job from the results in its directory, compare it with its baseline, check its
gate, and write reports. No trial is run. It also works for jobs that were cancelled, that still run or
whose run was killed: missing trials are counted as skipped and reported. Such a job never passes.
JOB is a job's directory, or its name below jobs/; without it, the newest job is taken.

The gate is the one in the job's config.json; flags win over it.
` + command.RunCodes,
		Example: `  rollout report jobs/nightly --junit junit.xml --markdown report.md
  rollout report jobs/pr --baseline jobs/main --max-broken-tasks 0 --format comment
  rollout report jobs/nightly --json | jq .pass_rate`,
		Args: command.MaybeJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, _, err := v.JobAnd(cmd.Context(), args)
			if err != nil {
				return err
			}
			req, format, err := opts.request(dir)
			if err != nil {
				return err
			}
			return Report(cmd.Context(), v, req, opts.printer(v, format))
		},
	}
	cmd.Flags().StringVar(&opts.format, "format", flags.FormatText, "what to print: text, or a report: "+v.Reporters.List())
	cmd.Flags().BoolVar(&opts.asJSON, "json", false, "print the job's result.json, made anew from the trials', instead of a summary; nothing is left in a workflow unless --github on says so")
	flags.Wants(cmd.Flags(), "format", "want "+flags.FormatList(v.Reporters))
	opts.report.Add(cmd, v.Reporters)
	return cmd
}

// request returns what a command line asks for, and the format to print.
func (o *reportOptions) request(dir string) (req reporting.ReportRequest, format string, err error) {
	formats := o.report.Files.Formats
	if o.asJSON && o.format != flags.FormatText {
		return req, "", command.Usagef("--json and --format %s are two things to print: give one of them", untrusted.Line(o.format))
	}
	if _, ok := formats.Find(o.format); !ok && o.format != flags.FormatText {
		return req, "", command.Usagef("--format %s: want %s", untrusted.Line(o.format), flags.FormatList(formats))
	}
	opts, printed, err := o.report.Options()
	if err != nil {
		return req, "", err
	}
	if o.asJSON && printed != "" {
		return req, "", command.Usagef("--json and --report %s are two things to print: name a file, as in --report %s=FILE", printed, printed)
	}
	// With --json, a program asks for numbers, maybe after a step that wrote to the workflow.
	req = reporting.ReportRequest{Dir: dir, Options: opts, Quiet: o.asJSON}
	format, err = flags.ToPrint(o.format, printed)
	return req, format, err
}

// printer returns how to print the job; nil: as a summary.
func (o *reportOptions) printer(v *command.Invocation, format string) func(report.Input) error {
	if o.asJSON {
		return func(in report.Input) error { return v.PrintJSON(in.Job) }
	}
	return o.report.Files.Printing(v.Stdout, format)
}

// Report reports on a job and prints its result; print is as in Invocation.Conclude.
func Report(ctx context.Context, v *command.Invocation, req reporting.ReportRequest, print func(report.Input) error) error {
	finished, err := reporting.Report(ctx, v.Host(), req)
	return v.Conclude(finished, err, print)
}
