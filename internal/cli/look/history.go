package look

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/library"
	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/cli/flags"
	"github.com/org/rollout-action/internal/cli/tables"
	"github.com/org/rollout-action/internal/core/history"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/ghvars"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// historyFormats are the values of --format of history.
var historyFormats = []string{flags.FormatText, "markdown", "json"}

// NewHistoryCommand returns the command history.
func NewHistoryCommand(v *command.Invocation) *cobra.Command {
	var req reporting.HistoryRequest
	var stored flags.Stored
	var format string
	cmd := &cobra.Command{
		Use:   "history",
		Short: "Show how agents did over time: pass rate, cost and time, and each task, run by run",
		Long: `Show how agents did over time, the oldest run first: pass rate with its 95% interval, mean reward, cost, time and tokens per trial,
and a row for each task. CHANGED marks runs before which the model's own name, the tasks or the judges changed: numbers before and
after such a run are not comparable. The level at the top begins at the last of these. A run of a part of the tasks (run --changed) is
marked there, too, and is neither in the level nor in the blocks next to it.

The runs are the jobs below jobs/, and with --history the lines of files that "rollout history add" keeps. In a workflow, --history
github:BRANCH takes the results that the newest runs on a branch left as artifacts (at most 100). Shards, jobs without a result and
proofs of tasks are left out, and so are baselines that ran with a job. All runs of an agent stand in
one table: if they are of several jobs, --job selects one of them by the names of its runs.
` + command.DoneCodes,
		Example: `  rollout history
  rollout history --job 'nightly-*'
  rollout history --history main.jsonl -n 50
  rollout history --history github:main
  rollout history --format markdown >> "$GITHUB_STEP_SUMMARY"`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains(historyFormats, format) {
				return command.Usagef("--format %s: want %s", format, strings.Join(historyFormats, ", "))
			}
			if len(req.Files) > 0 && !cmd.Flags().Changed("jobs-dir") {
				req.Dir = ""
			}
			req.Stored = stored.At(cmd.Flags().Changed)
			points, err := library.History(cmd.Context(), v.Host(), req)
			if err != nil {
				return err
			}
			if len(points) == 0 && format != "json" && req.Dir != "" && !cmd.Flags().Changed("jobs-dir") && !isThere(v, req.Dir) {
				_, err := fmt.Fprintln(v.Stdout, library.NoJobsYet(req.Dir))
				return err
			}
			if len(points) == 0 && len(req.Jobs) > 0 && format != "json" {
				_, err := fmt.Fprintf(v.Stdout, "There is no run of a job whose name matches%s. See the names: rollout ls\n", globs(req.Jobs))
				return err
			}
			return printHistory(v.Env, points, format)
		},
	}
	cmd.Flags().StringArrayVar(&req.Files, "history", nil, "read this file of lines, or github:[BRANCH], instead of the directory of jobs unless --jobs-dir names it, too (repeatable)")
	stored.Add(cmd)
	cmd.Flags().StringVar(&req.Dir, "jobs-dir", host.JobsDir, "the directory with the jobs, as jobs_dir in job files")
	cmd.Flags().IntVarP(&req.Limit, "limit", "n", 20, "show at most this many runs, the newest; 0: all")
	cmd.Flags().StringArrayVar(&req.Jobs, "job", nil, "only runs of jobs whose name matches this glob, as in 'nightly-*' (repeatable)")
	cmd.Flags().StringVar(&format, "format", flags.FormatText, "what to print: text, markdown, or json with every number")
	flags.Wants(cmd.Flags(), "format", "want "+strings.Join(historyFormats, ", "))
	cmd.AddCommand(newHistoryAddCommand(v))
	return cmd
}

// globs returns the values of --job for a sentence.
func globs(values []string) string {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = host.QuotedPath(v)
	}
	return " " + strings.Join(quoted, " or ")
}

func newHistoryAddCommand(v *command.Invocation) *cobra.Command {
	var req library.HistoryAddRequest
	cmd := &cobra.Command{
		Use:   "add [JOB]",
		Short: "Add a job to a file that keeps a line for each job",
		Long: `Add a job to a file of JSON lines, which is made if it does not exist. A line has the numbers of each agent and task, and what tells
whether runs are comparable, in a few kilobytes: a workflow can keep the file on a branch or in a cache for years. JOB is a job's
directory, or its name below jobs/; without it, the newest job is taken. A job that the file has already is not added again. Processes
may add to one file at the same time.
` + command.DoneCodes,
		Example: `  rollout history add nightly --to main.jsonl
  rollout history add --to main.jsonl --branch main`,
		Args: command.MaybeJob,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if req.To == "" {
				return command.Usagef("%s needs --to with the file to add to (see %s --help)", cmd.CommandPath(), cmd.CommandPath())
			}
			if req.Dir, _, err = v.JobAnd(cmd.Context(), args); err != nil {
				return err
			}
			if vars := ghvars.Read(v.Getenv); !cmd.Flags().Changed("branch") {
				req.Branch, _ = strings.CutPrefix(vars.Ref, "refs/heads/")
			}
			added, err := library.AddToHistory(cmd.Context(), v.Host(), req)
			switch {
			case err != nil:
				return err
			case added:
				_, err = fmt.Fprintf(v.Stdout, "Added %s to %s\n", untrusted.ShellPath(req.Dir), untrusted.Line(req.To))
			default:
				_, err = fmt.Fprintf(v.Stdout, "%s has %s already\n", untrusted.Line(req.To), untrusted.ShellPath(req.Dir))
			}
			return err
		},
	}
	cmd.Flags().StringVar(&req.To, "to", "", "the file to add to")
	cmd.Flags().StringVar(&req.Branch, "branch", "", "the branch that was evaluated (default: the workflow's)")
	return cmd
}

// printHistory prints points, the oldest first.
func printHistory(e command.Env, points []history.Point, format string) error {
	if format == "json" {
		if points == nil {
			points = []history.Point{}
		}
		return e.PrintJSON(points)
	}
	var b strings.Builder
	if len(points) == 0 {
		b.WriteString("There are no runs yet. The jobs below jobs/ are shown, and the files that --history names.\n")
	}
	for i, name := range history.Names(points) {
		if i > 0 {
			b.WriteString("\n")
		}
		writeAgentHistory(&b, points, name, format == "markdown")
	}
	_, err := io.WriteString(e.Stdout, b.String())
	return err
}

// writeAgentHistory prints the runs of an agent, and its tasks.
func writeAgentHistory(b *strings.Builder, points []history.Point, name string, markdown bool) {
	title := tables.Cell(name)
	if level := history.Line(points, tables.Cell(name), name, len(points)); level != "" {
		title = level + "  " + history.Blocks(points, name, len(points))
	}
	write := func(header []string, rows [][]string) {
		if markdown {
			b.WriteString("\n")
			tables.Markdown(b, header, rows)
			return
		}
		t := tables.New(b)
		t.Row(header...)
		for _, r := range rows {
			t.Row(r...)
		}
		_ = t.Flush() // to a buffer
	}
	if markdown {
		b.WriteString("### " + untrusted.Markdown(title) + "\n")
	} else {
		b.WriteString("Agent " + title + "\n")
	}
	write([]string{"STARTED", "COMMIT", "PASSED", "PASS RATE", "95% INTERVAL", "MEAN REWARD", "COST/TRIAL", "TIME/TRIAL", "TOKENS/TRIAL", "VERDICT", "CHANGED", "JOB"}, runRows(points, name))
	b.WriteString("\n")
	write([]string{"RUNS", "TASK"}, taskRows(points, name))
	b.WriteString("\nA place for each run, the oldest first: ✓ each attempt passed, ~ some, ✗ none, · no attempt with a score.\n")
	if note := history.PartsNote(points, name); note != "" {
		b.WriteString("\n" + note + "\n")
	}
}

// runRows returns a row for each run that has the agent.
func runRows(points []history.Point, name string) (rows [][]string) {
	const unknown = "–"
	for _, p := range history.Runs(points, name) {
		a := p.Agent
		commit, rate, interval, reward, changed := unknown, unknown, unknown, unknown, unknown
		if p.Commit != nil {
			commit = tables.Cell(host.ShortCommit(*p.Commit))
		}
		if a.Attempts > 0 {
			rate, reward = report.Percent(a.PassRate), report.Number(a.MeanReward)
		}
		if a.Interval != nil {
			interval = report.Percent(a.Interval.Low) + " to " + report.Percent(a.Interval.High)
		}
		passed := fmt.Sprintf("%d/%d", a.Passed, a.Attempts)
		if a.Lost > 0 {
			passed += fmt.Sprintf(", %d lost", a.Lost)
		}
		cost, seconds, tokens := unknown, unknown, unknown
		if a.Cost.N > 0 {
			cost = report.Cost(result.Dollars(a.Cost.Mean))
			if a.CostAtLeast {
				cost = "≥ " + cost
			}
		}
		if a.DurationSec.N > 0 {
			seconds = report.Duration(a.DurationSec.Mean)
		}
		if a.InputTokens.N > 0 || a.OutputTokens.N > 0 {
			tokens = fmt.Sprintf("%.0f in, %.0f out", a.InputTokens.Mean, a.OutputTokens.Mean)
		}
		if c := p.Changed.String(); c != "" {
			changed = c
		}
		verdict := unknown
		if p.Verdict != "" {
			verdict = tables.Cell(string(p.Verdict))
		}
		rows = append(rows, []string{
			p.StartedAt.UTC().Format("2006-01-02 15:04"), commit, passed, rate, interval, reward, cost, seconds, tokens, verdict, changed, tables.Cell(p.JobName),
		})
	}
	return rows
}

// taskRows returns a row for each task that an agent had in a run, with a sign for each run that
// has the agent.
func taskRows(points []history.Point, name string) (rows [][]string) {
	for _, t := range history.TasksOf(history.Runs(points, name)) {
		signs := ""
		for _, run := range t.Runs {
			signs += run.Sign()
		}
		rows = append(rows, []string{signs, tables.Cell(t.Dataset) + "/" + tables.Cell(t.Name)})
	}
	return rows
}
