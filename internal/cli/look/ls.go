package look

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/library"
	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/cli/tables"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// NewLsCommand returns the command ls.
func NewLsCommand(v *command.Invocation) *cobra.Command {
	var req library.JobsRequest
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls [DIR]",
		Short: "List jobs: when they ran, their state, pass rate, cost and verdict",
		Long: `List the jobs in a directory, the newest first: those that are done, run, were cancelled or killed, were
stopped by their budget or --fail-fast, shards, and jobs whose files are damaged. Times are UTC. TRIALS are the trials with a reward, of all.
PASS RATE is that of your agents: oracle and nop count only if the job has no other.

VERDICT is the last one on the job's results, which run, resume, merge, verify, rejudge and report keep in its verdict.json; "fail" also
stands for missing results. A job that keeps none has what its own gate says without a baseline. It is "–" for shards, for jobs that
were cancelled or killed, and if a job began with a baseline and keeps no verdict, unless it fails without a baseline, too.
` + command.DoneCodes,
		Example: `  rollout ls
  rollout ls nightly-jobs -n 0
  rollout ls --json | jq '.[] | select(.state == "killed") | .dir'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return command.Usagef("%s takes one directory, got %d (see %s --help)", cmd.CommandPath(), len(args), cmd.CommandPath())
			}
			if len(args) == 1 && cmd.Flags().Changed("jobs-dir") {
				return command.Usagef("%s: give the directory once, as DIR or with --jobs-dir", cmd.CommandPath())
			}
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				req.Dir = args[0]
			}
			req.Default = len(args) == 0 && !cmd.Flags().Changed("jobs-dir")
			jobs, err := library.ListJobs(cmd.Context(), v.Host(), req)
			if err != nil {
				return err
			}
			if jobs.NoDir {
				fmt.Fprintln(v.Stderr, library.NoJobsYet(req.Dir))
			}
			if asJSON {
				if n := jobs.Total - len(jobs.List); n > 0 {
					fmt.Fprintf(v.Stderr, "%s more; -n 0 lists all\n", plural.Count(n, "job"))
				}
				if jobs.List == nil {
					jobs.List = []library.ListedJob{}
				}
				return v.PrintJSON(jobs.List)
			}
			if jobs.NoDir {
				return nil
			}
			return printJobs(v.Stdout, req.Dir, jobs)
		},
	}
	cmd.Flags().StringVar(&req.Dir, "jobs-dir", host.JobsDir, "the directory with the jobs, as jobs_dir in job files")
	cmd.Flags().IntVarP(&req.Limit, "limit", "n", 20, "list at most this many jobs; 0: all")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: dir, job_name, state, resumable, started_at, commit, shard, the numbers of trials, pass_rate, mean_reward, total_cost, verdict, baseline and more")
	return cmd
}

// printJobs prints jobs as text.
func printJobs(out io.Writer, dir string, jobs library.Jobs) error {
	if jobs.Total == 0 {
		_, err := fmt.Fprintf(out, "There are no jobs in %s\n", untrusted.Line(dir))
		return err
	}
	t := tables.New(out)
	t.Row("STARTED", "STATE", "COMMIT", "PASS RATE", "TRIALS", "COST", "VERDICT", "JOB")
	for _, j := range jobs.List {
		t.Row(jobRow(j)...)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, j := range jobs.List {
		if j.Error != "" {
			fmt.Fprintf(out, "\nUnreadable: %s: %s\n", tables.Cell(j.Dir), untrusted.Cut(untrusted.Line(j.Error), 300))
		}
	}
	for _, j := range jobs.List {
		if j.Note != "" {
			fmt.Fprintf(out, "\nNote: %s\n", j.Note)
		}
	}
	for _, j := range jobs.List {
		if j.Resumable {
			fmt.Fprintf(out, "\nContinue %s with: %s\n", tables.Cell(j.Dir), j.Resume)
			break
		}
	}
	if n := jobs.Total - len(jobs.List); n > 0 {
		_, err := fmt.Fprintf(out, "\n%s more; -n 0 lists all\n", plural.Count(n, "job"))
		return err
	}
	return nil
}

// jobRow returns the cells of a job.
func jobRow(j library.ListedJob) []string {
	const unknown = "–"
	started, state, commit, rate, trials, verdict := unknown, string(j.State), unknown, unknown, unknown, unknown
	if !j.StartedAt.IsZero() {
		started = j.StartedAt.UTC().Format("2006-01-02 15:04")
	}
	if j.Shard != nil {
		state += ", shard " + j.Shard.String()
	}
	if j.Commit != nil {
		commit = tables.Cell(host.ShortCommit(*j.Commit))
	}
	if j.PassRate != nil {
		rate = report.Percent(*j.PassRate)
	}
	if j.TotalTrials > 0 {
		trials = fmt.Sprintf("%d/%d", j.CompletedTrials, j.TotalTrials)
	}
	if j.Verdict != "" {
		verdict = string(j.Verdict)
	}
	return []string{started, state, commit, rate, trials, report.Cost(j.TotalCost), verdict, untrusted.ShellPath(j.Dir)}
}
