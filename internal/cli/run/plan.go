package run

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/app"
	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/cli/flags"
	"github.com/org/rollout-action/internal/cli/tables"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// planOptions are the flags of plan.
type planOptions struct {
	job             flags.Job
	shards, timings string
	target          time.Duration
	comment         string
	estimate        bool
	baseline        string
	stored          flags.Stored
	reuse           []string
	gate            flags.Gate
	against         string
	confirmAgainst  string
	since           string
	power, asJSON   bool
	changed         func(string) bool
}

// NewPlanCommand returns the command plan.
func NewPlanCommand(v *command.Invocation) *cobra.Command {
	var opts planOptions
	cmd := &cobra.Command{
		Use:   "plan JOB_FILE",
		Short: "Show which trials a job would run, or divide it into shards",
		Long: `Show which trials a job would run, in the order in which they would be started. Nothing is
started, no provider is contacted.

With --shards it divides the job among machines instead, and --json prints the matrix of a GitHub
workflow. In a workflow it sets the outputs matrix (that JSON) and shards (their number). Each machine then runs
"rollout run --shard" with the same job file and timings. With --comment, the comment that an earlier run has left on the
pull request (or the merge request in GitLab CI) says that the job is being evaluated, until "rollout merge --comment" replaces it.
With --estimate it also says which trials run, and what they are expected to cost by the results of --baseline, and it is made if
there is none. Without --shards, --estimate is about the job as one shard. Give it --reuse, --against and --confirm-against as the run
gets them: they decide how many trials there are.

With --changed it shows only the trials that what changed since a commit can affect, by the key affects of the job file, and why.
If there are none, the matrix is empty and shards is 0. If the job stops early (gate.stop) by looks at all tasks, the output round is
1: each shard runs with --round 1, and "rollout merge --look" tells which round is next.

With --power it shows how small a change the gate would show in four of five runs, with 1 to 10 attempts, and what they cost:
an estimate by the job that --timings names, from its scores and costs.
` + command.DoneCodes,
		Example: `  rollout plan job.yaml
  rollout plan job.yaml --json --agent oracle
  rollout plan job.yaml --changed main
  rollout plan job.yaml --power --timings results/main/result.json
  rollout plan job.yaml --shards auto --target 10m --timings results/main/result.json`,
		Args: command.OneArg("a job file"),
		RunE: func(cmd *cobra.Command, args []string) error { return opts.run(cmd.Context(), v, args[0]) },
	}
	opts.add(cmd)
	return cmd
}

// add defines the flags of plan.
func (o *planOptions) add(cmd *cobra.Command) {
	o.changed = cmd.Flags().Changed
	o.job.Add(cmd)
	addChanged(cmd, &o.since)
	cmd.Flags().StringVar(&o.shards, "shards", "", "divide the job into so many shards, or auto: as many as --target needs")
	cmd.Flags().DurationVar(&o.target, "target", stages.DefaultTarget, "with --shards auto: how long a shard may take, as in 20m")
	flags.AddTimings(cmd, &o.timings)
	cmd.Flags().StringVar(&o.comment, "comment", "off", "with --shards: add a line about this run to the comment of an earlier one, until the merge replaces it: always, changes or failures, as for the merge, or off")
	flags.Wants(cmd.Flags(), "comment", "want off, always, changes or failures")
	cmd.Flags().BoolVar(&o.estimate, "estimate", false, "say what would run and what it is expected to cost by --baseline, with --shards also in the comment, which is made if there is none")
	cmd.Flags().StringVar(&o.baseline, "baseline", reporting.BaselineNone, "with --estimate: the results to estimate from, as for run")
	o.stored.Add(cmd)
	cmd.Flags().StringArrayVar(&o.reuse, "reuse", nil, "with --estimate: what the run takes over, as for run; trials that are the same in the baseline (baseline) are not counted (repeatable)")
	cmd.Flags().StringVar(&o.against, "against", "", "with --estimate: the run has --against, so count the trials of the baseline, too")
	cmd.Flags().StringVar(&o.confirmAgainst, "confirm-against", "", "with --estimate: the run has --confirm-against")
	o.gate.AddTrials(cmd)
	cmd.Flags().BoolVar(&o.power, "power", false, "show how small a change the gate would show in four of five runs, with 1 to 10 attempts; --timings names an earlier job")
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "print JSON: job_name, total_trials and trials, or with --shards the matrix, or with --power its table")
}

// run prints what the flags ask for.
func (o *planOptions) run(ctx context.Context, v *command.Invocation, file string) error {
	req, err := o.job.Request(file)
	if err != nil {
		return err
	}
	req = req.Gated(reporting.ReportOptions{Gate: o.gate.Overrides()})
	req.Changed = o.since
	if err := o.checkEstimate(); err != nil {
		return err
	}
	if o.power {
		if o.changed("shards") || o.changed("target") || o.changed("comment") || o.estimate {
			return command.Usagef("--power is about the whole job: it does not go with --shards, --target, --estimate or --comment")
		}
		return showPower(ctx, v, req, o.timings, o.asJSON)
	}
	if !o.divides() {
		return Plan(ctx, v, req, o.asJSON)
	}
	return Divide(ctx, v, app.DivideRequest{
		Job: req, Shards: o.shards, Target: o.target, Timings: o.timings, Comment: o.comment,
		Estimate: o.estimate, Baseline: o.baseline, Stored: o.stored.At(o.changed),
		Reuse: o.reuse, Against: o.against, ConfirmAgainst: o.confirmAgainst,
	}, o.asJSON)
}

// checkEstimate refuses flags about the results of an estimate that was not asked for.
func (o *planOptions) checkEstimate() error {
	for _, flag := range []string{"baseline", "baseline-artifact", "baseline-workflow", "reuse", "against", "confirm-against"} {
		if o.changed(flag) && !o.estimate {
			return command.Usagef("--%s is for --estimate", flag)
		}
	}
	return nil
}

// divides reports whether the command line asks for shards.
func (o *planOptions) divides() bool {
	return o.changed("shards") || o.changed("target") || o.changed("timings") || o.changed("comment") || o.estimate
}

// Plan prints the trials of a job.
func Plan(ctx context.Context, v *command.Invocation, req stages.JobRequest, asJSON bool) error {
	p, err := app.PlanJob(ctx, v.Host(), req)
	if err != nil {
		return err
	}
	v.PrintWarnings(p.Warnings)
	if asJSON {
		return v.PrintJSON(struct {
			JobName string         `json:"job_name"`
			Total   int            `json:"total_trials"`
			AtMost  bool           `json:"at_most,omitempty"`
			Trials  []result.Key   `json:"trials"`
			Changes *changesInPlan `json:"changes,omitempty"`
		}{p.Job.Name, len(p.Trials), p.AtMost, p.Trials, changesOf(p)})
	}
	if len(p.Trials) == 0 && p.Affected != nil {
		_, err := fmt.Fprintln(v.Stdout, "No trial would run: "+p.Affected.Sentence())
		printChanges(v.Env, p.Affected)
		return err
	}
	w := tables.New(v.Stdout)
	head := []string{"AGENT", "DATASET", "TASK", "ATTEMPTS"}
	if p.Affected != nil {
		head = append(head, "WHY")
	}
	w.Row(head...)
	for i, k := range p.Trials {
		if k.Attempt != 1 {
			continue
		}
		row := []string{untrusted.Line(k.Agent), untrusted.Line(k.Dataset), untrusted.Line(k.Task), strconv.Itoa(p.Job.NAttempts)}
		if p.Affected != nil {
			row = append(row, untrusted.Line(p.Affected.Why(i)))
		}
		w.Row(row...)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	printChanges(v.Env, p.Affected)
	fmt.Fprintf(v.Stdout, "\n%s%s, %d at a time, on %s\n", app.Most(p.AtMost), plural.Count(len(p.Trials), "trial"), p.Job.NConcurrentTrials, p.Job.Environment.Type)
	return nil
}

// Divide prints how a job is divided into shards.
func Divide(ctx context.Context, v *command.Invocation, req app.DivideRequest, asJSON bool) error {
	d, err := app.Divide(ctx, v.Host(), req)
	if err != nil {
		return err
	}
	if asJSON {
		return v.PrintJSON(d.Matrix())
	}
	return printDivision(v.Env, d)
}

func printDivision(e command.Env, d app.Division) error {
	if len(d.Shards) == 0 {
		_, err := fmt.Fprintln(e.Stdout, "no trial, so no shard: nothing that changed can affect one")
		return err
	}
	w := tables.New(e.Stdout)
	w.Row("SHARD", "TRIALS", "EXPECTED")
	trials := 0
	for _, s := range d.Shards {
		expected := "not known"
		if s.Wall != nil {
			expected = app.Brief(*s.Wall)
		}
		w.Row(s.Shard.String(), strconv.Itoa(s.Trials), expected)
		trials += s.Trials
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(e.Stdout, "\n%s%s in %s, %d at a time in each\n", app.Most(d.AtMost), plural.Count(trials, "trial"), plural.Count(len(d.Shards), "shard"), d.Concurrent)
	if d.InRounds {
		fmt.Fprintln(e.Stdout, "the attempts are made in rounds (gate.stop): run each shard with --round 1, then rollout merge --look tells which round is next")
	}
	if d.Ahead != nil {
		for _, line := range d.Ahead.Lines(untrusted.Line) {
			fmt.Fprintln(e.Stdout, line)
		}
	}
	return nil
}
