package cli

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/job"
	"github.com/org/rollout-action/internal/plural"
	"github.com/org/rollout-action/internal/result"
)

func (a *app) planCommand() *cobra.Command {
	var flags jobFlags
	var matrix matrixFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "plan JOB_FILE",
		Short: "Show which trials a job would run, or divide it into shards",
		Long: `Show which trials a job would run, in the order in which they would be started. Nothing is
started, no provider is contacted.

With --shards it divides the job among machines instead, and --json prints the matrix of a GitHub
workflow. In a workflow it sets the outputs matrix (that JSON) and shards (their number). Each machine then runs
"rollout run --shard" with the same job file and timings.
` + doneCodes,
		Example: `  rollout plan job.yaml
  rollout plan job.yaml --json --agent oracle
  rollout plan job.yaml --shards auto --target 10m --timings results/main/result.json`,
		Args: oneArg("a job file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !matrix.given(cmd) {
				return a.plan(cmd.Context(), args[0], flags, asJSON)
			}
			return a.planShards(cmd.Context(), args[0], flags, matrix, asJSON)
		},
	}
	flags.add(cmd)
	matrix.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: job_name, total_trials and trials, or with --shards the matrix")
	return cmd
}

func (a *app) plan(ctx context.Context, path string, flags jobFlags, asJSON bool) error {
	p, err := a.prepare(ctx, path, flags)
	if err != nil {
		return err
	}
	a.printWarnings(p.Warnings)
	keys := job.Keys(p.specs)
	if asJSON {
		return a.printJSON(struct {
			JobName string       `json:"job_name"`
			Total   int          `json:"total_trials"`
			Trials  []result.Key `json:"trials"`
		}{p.Job.Name, len(keys), keys})
	}
	w := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "AGENT\tDATASET\tTASK\tATTEMPTS")
	for _, k := range keys {
		if k.Attempt == 1 {
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\n", clean(k.Agent), clean(k.Dataset), clean(k.Task), p.Job.NAttempts)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(a.Stdout, "\n%s, %d at a time, on %s\n", plural.Count(len(keys), "trial"), p.Job.NConcurrentTrials, p.Job.Environment.Type)
	return nil
}

func (a *app) printJSON(v any) error {
	text, err := result.Marshal(v)
	if err != nil {
		return err
	}
	_, err = a.Stdout.Write(text)
	return err
}
