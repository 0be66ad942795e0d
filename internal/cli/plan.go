package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/app"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/plural"
)

// planOptions are the flags of plan.
type planOptions struct {
	job             jobFlags
	shards, timings string
	target          time.Duration
	comment         string
	asJSON          bool
	changed         func(string) bool
}

func newPlanCommand(v *invocation) *cobra.Command {
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
` + doneCodes,
		Example: `  rollout plan job.yaml
  rollout plan job.yaml --json --agent oracle
  rollout plan job.yaml --shards auto --target 10m --timings results/main/result.json`,
		Args: oneArg("a job file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			req, err := opts.job.request(args[0])
			if err != nil {
				return err
			}
			if !opts.divides() {
				return v.plan(cmd.Context(), req, opts.asJSON)
			}
			return v.divide(cmd.Context(), app.DivideRequest{Job: req, Shards: opts.shards, Target: opts.target, Timings: opts.timings, Comment: opts.comment}, opts.asJSON)
		},
	}
	opts.changed = cmd.Flags().Changed
	opts.job.add(cmd)
	cmd.Flags().StringVar(&opts.shards, "shards", "", "divide the job into so many shards, or auto: as many as --target needs")
	cmd.Flags().DurationVar(&opts.target, "target", app.DefaultTarget, "with --shards auto: how long a shard may take, as in 20m")
	addTimings(cmd, &opts.timings)
	cmd.Flags().StringVar(&opts.comment, "comment", "off", "with --shards: have the comment of an earlier run say that this one goes on, unless it is off; always, changes or failures is what merge will have")
	wants(cmd.Flags(), "comment", "want off, always, changes or failures")
	cmd.Flags().BoolVar(&opts.asJSON, "json", false, "print JSON: job_name, total_trials and trials, or with --shards the matrix")
	return cmd
}

// divides reports whether the command line asks for shards.
func (o *planOptions) divides() bool {
	return o.changed("shards") || o.changed("target") || o.changed("timings") || o.changed("comment")
}

// plan prints the trials of a job.
func (v *invocation) plan(ctx context.Context, req app.JobRequest, asJSON bool) error {
	p, err := app.PlanJob(ctx, v.host(), req)
	if err != nil {
		return err
	}
	v.printWarnings(p.Warnings)
	if asJSON {
		return v.printJSON(struct {
			JobName string       `json:"job_name"`
			Total   int          `json:"total_trials"`
			Trials  []result.Key `json:"trials"`
		}{p.Job.Name, len(p.Trials), p.Trials})
	}
	w := newTable(v.Stdout)
	w.row("AGENT", "DATASET", "TASK", "ATTEMPTS")
	for _, k := range p.Trials {
		if k.Attempt == 1 {
			w.row(clean(k.Agent), clean(k.Dataset), clean(k.Task), strconv.Itoa(p.Job.NAttempts))
		}
	}
	if err := w.flush(); err != nil {
		return err
	}
	fmt.Fprintf(v.Stdout, "\n%s, %d at a time, on %s\n", plural.Count(len(p.Trials), "trial"), p.Job.NConcurrentTrials, p.Job.Environment.Type)
	return nil
}

// divide prints how a job is divided into shards.
func (v *invocation) divide(ctx context.Context, req app.DivideRequest, asJSON bool) error {
	d, err := app.Divide(ctx, v.host(), req)
	if err != nil {
		return err
	}
	if asJSON {
		return v.printJSON(d.Matrix())
	}
	return v.printDivision(d)
}

func (e Env) printDivision(d app.Division) error {
	w := newTable(e.Stdout)
	w.row("SHARD", "TRIALS", "EXPECTED")
	trials := 0
	for _, s := range d.Shards {
		expected := "not known"
		if s.Wall != nil {
			expected = app.Brief(*s.Wall)
		}
		w.row(s.Shard.String(), strconv.Itoa(s.Trials), expected)
		trials += s.Trials
	}
	if err := w.flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(e.Stdout, "\n%s in %s, %d at a time in each\n", plural.Count(trials, "trial"), plural.Count(len(d.Shards), "shard"), d.Concurrent)
	return err
}
