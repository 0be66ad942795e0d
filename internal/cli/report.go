package cli

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/app"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/reporters"
	"github.com/org/rollout-action/reporters/junit"
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
			req, err := opts.request(dir)
			if err != nil {
				return err
			}
			return v.report(cmd.Context(), req, opts.printer(v))
		},
	}
	cmd.Flags().StringVar(&opts.format, "format", formatText, "what to print: text, or a report: "+strings.Join(formats(), ", "))
	cmd.Flags().BoolVar(&opts.asJSON, "json", false, "print the job's result.json, made anew from the trials', instead of a summary; nothing is left in a workflow unless --github on says so")
	wants(cmd.Flags(), "format", "want text, "+strings.Join(formats(), ", "))
	opts.report.add(cmd)
	return cmd
}

// formats returns the names of the reports that can be printed.
func formats() []string { return slices.Sorted(maps.Keys(reporters.All)) }

// request returns what a command line asks for.
func (o *reportOptions) request(dir string) (app.ReportRequest, error) {
	if o.asJSON && o.format != formatText {
		return app.ReportRequest{}, usage("--json and --format %s are two things to print: give one of them", clean(o.format))
	}
	if _, ok := reporters.All[o.format]; !ok && o.format != formatText {
		return app.ReportRequest{}, usage("--format %s: want text, %s", o.format, strings.Join(formats(), ", "))
	}
	// With --json, a program asks for numbers, maybe after a step that wrote to the workflow.
	return app.ReportRequest{Dir: dir, Options: o.report.options(), Quiet: o.asJSON}, nil
}

// printer returns how to print the job; nil: as a summary.
func (o *reportOptions) printer(v *invocation) func(report.Input) error {
	r, ok := reporters.All[o.format]
	switch {
	case o.asJSON:
		return func(in report.Input) error { return v.printJSON(in.Job) }
	case !ok:
		return nil
	}
	if _, is := r.(junit.Reporter); is {
		r = junit.Reporter{CaseFiles: o.report.caseFiles}
	}
	return func(in report.Input) error { return r.Write(v.Stdout, in) }
}

// report reports on a job and prints its result; print is as in conclude.
func (v *invocation) report(ctx context.Context, req app.ReportRequest, print func(report.Input) error) error {
	finished, err := app.Report(ctx, v.host(), req)
	return v.conclude(finished, err, print)
}
