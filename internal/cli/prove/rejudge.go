package prove

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/app/inspect"
	"github.com/org/rollout-action/internal/app/rerun"
	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/cli/flags"
	"github.com/org/rollout-action/internal/cli/tables"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// rejudgeOptions are the flags of rejudge.
type rejudgeOptions struct {
	req  rerun.RejudgeRequest
	job  flags.Job
	json bool
}

// NewRejudgeCommand returns the command rejudge.
func NewRejudgeCommand(v *command.Invocation) *cobra.Command {
	var opts rejudgeOptions
	cmd := &cobra.Command{
		Use:   "rejudge [JOB [TRIAL...]]",
		Short: "Run the judges of a job again, on the files that its trials left",
		Long: `Run judges again on the files that the trials of a job left, to see how stable their verdicts are, how another model judges,
or what a changed prompt does. No agent and no test runs. Each TRIAL is a part of the name of one trial,
agent/dataset/task__attempt; without one, all trials are judged.
JOB is a job's directory, or its name below jobs/; without it, the newest job is taken.

Calls can judge again, and judges in fresh environments whose artifacts were kept whole. A judge in the agent's environment
cannot, because that is gone: its earlier verdict stays.

The verdicts go into a new job, and the old one does not change; with --times, into one for each time. They can be
reported and compared like other jobs. With --job-file, the judges are those of that file: judges can be written, and tried,
on trials that had none.

The result compares the runs: how many trials got the same score in all of them, and which verdicts differ most. The job that
is judged again is the first run if it has verdicts.

Exit codes:
  0    done
  1    done, but a trial has an error now: a judge gave no verdict
  2    wrong usage or an invalid job file; nothing was started
  3    rollout or its infrastructure failed
  130  cancelled`,
		Example: `  rollout rejudge jobs/nightly --times 3
  rollout rejudge jobs/nightly --judge quality --model another-model
  rollout rejudge jobs/nightly my-agent/evals/fix-the-build__1 --job-file job.yaml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if slices.Contains(args, "") {
				return command.Usagef("%s: an argument is empty: leave it out, or give a part of a trial's name", cmd.CommandPath())
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return nil, cobra.ShellCompDirectiveFilterDirs
			}
			return inspect.TrialNames(v.Host().Paths, v.Host().NamedJob(args[0]), prefix), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			req := opts.req
			if req.Dir, req.Trials, err = v.JobAnd(cmd.Context(), args); err != nil {
				return err
			}
			req.Name = opts.job.Name
			if req.Job, err = opts.job.Request(""); err != nil {
				return err
			}
			host, err := v.HostShowing("")
			if err != nil {
				return err
			}
			got, err := rerun.Rejudge(cmd.Context(), host, req)
			if got == nil {
				return err
			}
			return printRejudged(v, *got, opts.json, err)
		},
	}
	fs := cmd.Flags()
	fs.StringSliceVar(&opts.req.Judges, "judge", nil, "only judges with these names; the verdicts of the others stay")
	fs.IntVar(&opts.req.Times, "times", 1, "how often each judge judges")
	fs.StringVar(&opts.req.Model, "model", "", "the model that judges: a name of models in the job")
	opts.job.AddNext(cmd, "-rejudged")
	flags.AddJobFile(cmd, &opts.req.JobFile)
	fs.BoolVar(&opts.json, "json", false, "print JSON: all scores and reasons of each run")
	return cmd
}

// printRejudged prints how the runs of judges compare. failed is what went wrong, or nil.
func printRejudged(v *command.Invocation, r rerun.Rejudged, asJSON bool, failed error) error {
	if asJSON {
		if err := v.PrintJSON(r); err != nil {
			return err
		}
	} else if err := writeRejudged(v.Stdout, r); err != nil {
		return err
	}
	switch {
	case failed != nil:
		return failed
	case r.Cancelled:
		return &command.Failure{Code: command.ExitCancelled}
	case r.Failed > 0:
		fmt.Fprintf(v.Stderr, "%s of judging again ended with an error: rollout report JOB shows it\n", plural.Count(r.Failed, "trial"))
		return &command.Failure{Code: command.ExitGate}
	}
	return nil
}

// maxUnstable is how many trials are shown whose verdicts differ.
const maxUnstable = 10

func writeRejudged(out io.Writer, r rerun.Rejudged) error {
	w := tables.New(out)
	header := []string{"JUDGE", "SAME SCORE", "SPREAD"}
	for i := range r.Runs {
		header = append(header, runName(r, i))
	}
	w.Row(header...)
	for _, j := range r.Judges {
		same, spread := "–", "–"
		if j.Stability.Trials > 0 {
			same = fmt.Sprintf("%d of %d", j.Same, j.Stability.Trials)
		}
		if j.Stability.Trials > j.Same {
			spread = score3(j.Spread)
		}
		line := []string{untrusted.Line(j.Name), same, spread}
		for i, mean := range j.Means {
			cell := "–"
			if mean != nil {
				cell = score3(*mean)
			}
			if n := j.Null[i]; n > 0 {
				cell += fmt.Sprintf(" (%d null)", n)
			}
			line = append(line, cell)
		}
		w.Row(line...)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	for i, run := range r.Runs {
		fmt.Fprintf(out, "%s: %s%s\n", runName(r, i), untrusted.Line(run.Dir), models(r.Judges, i))
	}
	for _, j := range r.Judges {
		fmt.Fprintf(out, "\n%s\n", stabilityOf(j))
		unstable := j.Unstable()
		for _, s := range unstable[:min(len(unstable), maxUnstable)] {
			fmt.Fprintf(out, "  %s\n", untrusted.Line(s.Trial))
			for i, score := range s.Scores {
				text := "null"
				if score != nil {
					text = score3(*score)
				}
				fmt.Fprintf(out, "    %-6s %s\n", text, untrusted.Cut(untrusted.Line(s.Reasons[i]), maxShownReason))
			}
		}
		if n := len(unstable) - maxUnstable; n > 0 {
			fmt.Fprintf(out, "  and %s (--json has all)\n", plural.Count(n, "more trial"))
		}
	}
	if _, ok := r.Cost.Reported(); ok {
		fmt.Fprintf(out, "\nJudging again cost %s.\n", report.Cost(r.Cost))
	}
	return nil
}

// runName returns the name of a run in the table.
func runName(r rerun.Rejudged, i int) string {
	switch {
	case !r.Runs[i].Again:
		return "BEFORE"
	case r.Runs[0].Again:
		i++
	}
	return "RUN " + strconv.Itoa(i)
}

// models returns the models that judged in a run.
func models(judges []rerun.RejudgedJudge, run int) string {
	var names []string
	for _, j := range judges {
		if m := untrusted.Line(j.Models[run]); m != "" && !slices.Contains(names, m) {
			names = append(names, m)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return " (" + strings.Join(names, ", ") + ")"
}

// stabilityOf says in words how stable the verdicts of a judge are.
func stabilityOf(j rerun.RejudgedJudge) string {
	name := untrusted.Line(j.Name)
	if j.Stability.Trials == 0 {
		return name + ": no trial has two scores, so nothing can be compared."
	}
	text := fmt.Sprintf("%s gave %d of %s (%d %%) the same score in all runs", name, j.Same, plural.Count(j.Stability.Trials, "trial"), 100*j.Same/j.Stability.Trials)
	if j.Same < j.Stability.Trials {
		text += fmt.Sprintf("; where the scores differ, it is by %s on average", score3(j.Spread))
	}
	text += "."
	if j.Higher+j.Lower > 0 {
		text += fmt.Sprintf(" Between the first run and the last, %s rose and %d fell.", plural.Count(j.Higher, "score"), j.Lower)
	}
	return text
}

// maxShownReason bounds a reason in the output, in bytes.
const maxShownReason = 200

// score3 returns a score with at most three digits after the point.
func score3(score float64) string { return strconv.FormatFloat(score, 'g', 3, 64) }
