package cli

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/app"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/output/export"
)

// The values of compare's flags.
var (
	tableFormats = []string{"text", "markdown", "json", "csv"}
	tableSides   = []string{"agent", "task"}
)

// compareOptions are the flags of compare.
type compareOptions struct {
	by, format string
	all        bool
	stored     storedFlags
}

func newCompareCommand(v *invocation) *cobra.Command {
	var opts compareOptions
	cmd := &cobra.Command{
		Use:   "compare JOB...",
		Short: "Put several jobs, or the agents of one, into one table, an agent or a task a row",
		Long: `Show agents of several jobs, or the agents of one job, side by side: trials, pass rate with its 95% interval, mean reward,
cost and time. Each JOB is as in "rollout diff":
a directory, a name below jobs/, the file of a job's result, a URL of one, or github:BRANCH.

Only tasks count that have the same files and a score in every row, so that all rows are about the same; --all-tasks counts
every task of each row. As in "rollout diff", an attempt that its agent, the verifier or a judge lost scores 0, and one that the
infrastructure or a cancel ended has no score. TRIALS are the trials with a score, of all. "–" is what nobody knows.

With --by task the tasks are the rows: the mean reward, and how many of the attempts passed.
` + doneCodes,
		Example: `  rollout compare jobs/nightly
  rollout compare jobs/small jobs/medium jobs/large --format markdown
  rollout compare github:main jobs/pr --by task --format csv > tasks.csv`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("%s needs a job, or several (see %s --help)", cmd.CommandPath(), cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(tableFormats, opts.format) {
				return usage("--format %s: want %s", opts.format, strings.Join(tableFormats, ", "))
			}
			if !slices.Contains(tableSides, opts.by) {
				return usage("--by %s: want %s", opts.by, strings.Join(tableSides, " or "))
			}
			jobs := make([]string, len(args))
			for i, arg := range args {
				jobs[i] = v.host().NamedJob(arg)
			}
			t, err := app.Tabulate(cmd.Context(), v.host(), app.TableRequest{Jobs: jobs, All: opts.all, Stored: opts.stored.at(cmd.Flags().Changed)})
			if err != nil {
				return err
			}
			return v.printTable(t, opts)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.by, "by", "agent", "what the rows are: agent or task")
	flags.StringVar(&opts.format, "format", "text", "what to print: text, markdown, json or csv")
	flags.BoolVar(&opts.all, "all-tasks", false, "count every task of each row, also tasks that other rows do not have")
	opts.stored.add(cmd)
	wants(flags, "format", "want "+strings.Join(tableFormats, ", "))
	wants(flags, "by", "want "+strings.Join(tableSides, " or "))
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(tableFormats, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("by", cobra.FixedCompletions(tableSides, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// printTable prints a table in the chosen format. Its notes go to stderr if stdout is JSON or CSV.
func (e Env) printTable(t app.Table, opts compareOptions) error {
	byTask := opts.by == "task"
	switch opts.format {
	case "json":
		fmt.Fprint(e.Stderr, tableNotes(t))
		if !byTask {
			t.Tasks = nil
			return e.printJSON(struct {
				app.Table
				Tasks []app.TableTask `json:"tasks,omitempty"`
			}{Table: t})
		}
		return e.printJSON(t)
	case "csv":
		fmt.Fprint(e.Stderr, tableNotes(t))
		if byTask {
			return writeTasksCSV(e.Stdout, t)
		}
		return writeRowsCSV(e.Stdout, t)
	}
	header, rows := rowCells(t)
	if byTask {
		header, rows = taskCells(t)
	}
	var b strings.Builder
	if opts.format == "markdown" {
		writeMarkdownTable(&b, header, rows)
		for _, s := range tableLines(t) {
			b.WriteString("\n" + untrusted.Markdown(s) + "\n")
		}
	} else {
		out := newTable(&b)
		for _, r := range append([][]string{header}, rows...) {
			for i := range r {
				r[i] = cell(r[i])
			}
			out.row(r...)
		}
		_ = out.flush() // to a buffer
		b.WriteString("\n" + tableNotes(t))
	}
	_, err := io.WriteString(e.Stdout, b.String())
	return err
}

// tableLines returns lines that name the jobs of a table and the trials that it counts.
func tableLines(t app.Table) []string {
	var out []string
	for _, j := range t.Jobs {
		out = append(out, "Of "+j.Text+".")
	}
	return append(out, t.Sentences()...)
}

func tableNotes(t app.Table) string { return strings.Join(tableLines(t), "\n") + "\n" }

// rowCells returns the table whose rows are agents. Numbers come first, so that no line begins with
// text from outside.
func rowCells(t app.Table) (header []string, rows [][]string) {
	header = []string{"TASKS", "TRIALS", "PASS RATE", "95% INTERVAL", "MEAN REWARD", "COST", "TIME", "AGENT"}
	models := slices.ContainsFunc(t.Rows, func(r app.TableRow) bool { return r.Usage != nil })
	if models { // means per trial
		header = slices.Concat(header[:7], []string{"TURNS", "INPUT", "OUTPUT", "COST/TRIAL", "MODEL TIME"}, header[7:])
	}
	if len(t.Jobs) > 1 {
		header = append(header, "JOB")
	}
	for _, r := range t.Rows {
		const unknown = "–"
		rate, interval, reward, duration := unknown, unknown, unknown, unknown
		if r.PassRate != nil {
			rate, reward = report.Percent(*r.PassRate), report.Number(*r.MeanReward)
			interval = report.Percent(r.Interval.Low) + " to " + report.Percent(r.Interval.High)
		}
		if r.DurationSec != nil {
			duration = report.Duration(*r.DurationSec)
		}
		cells := []string{strconv.Itoa(r.Tasks), fmt.Sprintf("%d/%d", r.Scored, r.Trials), rate, interval, reward, report.Cost(r.Cost), duration}
		if models {
			var usage result.UsageMeans
			if r.Usage != nil {
				usage = *r.Usage
			}
			cells = append(cells, report.UsageLevels(usage)...)
		}
		cells = append(cells, r.Agent)
		if len(t.Jobs) > 1 {
			cells = append(cells, r.Job)
		}
		rows = append(rows, cells)
	}
	return header, rows
}

// taskCells returns the table whose rows are tasks, with a column for each agent of a job.
func taskCells(t app.Table) (header []string, rows [][]string) {
	header = []string{"#", "DATASET", "TASK"}
	for _, r := range t.Rows {
		name := r.Agent
		if len(t.Jobs) > 1 {
			name += " in " + r.Job
		}
		header = append(header, name)
	}
	for i, task := range t.Tasks {
		name := task.Task
		if task.Changed {
			name += " (files differ)"
		}
		cells := []string{strconv.Itoa(i + 1), task.Dataset, name}
		for _, a := range task.Cells {
			cells = append(cells, scoresText(a))
		}
		rows = append(rows, cells)
	}
	return header, rows
}

// scoresText returns the mean of the attempts' scores and how many passed, or why there are none.
func scoresText(a *result.Attempts) string {
	switch {
	case a == nil:
		return "–"
	case len(a.Scores) > 0:
		return fmt.Sprintf("%s (%d/%d)", report.Number(a.Mean()), a.Passed, len(a.Scores))
	case len(a.Errors) > 0:
		return string(a.Errors[0])
	}
	return "no result"
}

// writeMarkdownTable writes a table of GitHub's Markdown. Its cells may be hostile.
func writeMarkdownTable(b *strings.Builder, header []string, rows [][]string) {
	line := func(cells []string) {
		for _, c := range cells {
			b.WriteString("| " + untrusted.Markdown(untrusted.Cut(untrusted.Line(c), 200)) + " ")
		}
		b.WriteString("|\n")
	}
	line(header)
	b.WriteString(strings.Repeat("|---", len(header)) + "|\n")
	for _, r := range rows {
		line(r)
	}
}

// writeCSV writes a table for programs. Its first column is a number, so that no line begins with
// text from outside.
func writeCSV(w io.Writer, header []string, rows [][]any) error {
	out := csv.NewWriter(w)
	out.UseCRLF = true // RFC 4180, as export
	if err := out.Write(append([]string{"row"}, header...)); err != nil {
		return err
	}
	for i, r := range rows {
		line := []string{strconv.Itoa(i + 1)}
		for _, value := range r {
			line = append(line, export.Cell(value))
		}
		if err := out.Write(line); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// orNil returns what a pointer points to; nil for none.
func orNil(f *float64) any {
	if f == nil {
		return nil
	}
	return *f
}

func dollarsOrNil(cost result.USD) any {
	if usd, ok := cost.Reported(); ok {
		return usd
	}
	return nil
}

func writeRowsCSV(w io.Writer, t app.Table) error {
	header := []string{
		"job", "agent", "tasks", "trials", "scored_trials", "passed_trials", "pass_rate", "pass_rate_low", "pass_rate_high", "mean_reward",
		"cost", "trials_without_cost", "duration_sec", "mean_duration_sec",
	}
	models := slices.ContainsFunc(t.Rows, func(r app.TableRow) bool { return r.Usage != nil })
	if models {
		header = append(header, "mean_turns", "mean_input_tokens", "mean_output_tokens", "mean_cost", "mean_model_sec", "models")
	}
	var rows [][]any
	for _, r := range t.Rows {
		var low, high any
		if r.Interval != nil {
			low, high = r.Interval.Low, r.Interval.High
		}
		rows = append(rows, []any{
			r.Job, r.Agent, r.Tasks, r.Trials, r.Scored, r.Passed, orNil(r.PassRate), low, high, orNil(r.MeanReward),
			dollarsOrNil(r.Cost), r.CostUnknown, orNil(r.DurationSec), orNil(r.MeanDuration),
		})
		if models {
			var u result.UsageMeans
			if r.Usage != nil {
				u = *r.Usage
			}
			last := &rows[len(rows)-1]
			*last = append(*last, orNil(u.Turns), orNil(u.InputTokens), orNil(u.OutputTokens), dollarsOrNil(u.Cost), orNil(u.ModelSec), strings.Join(u.Models, " "))
		}
	}
	return writeCSV(w, header, rows)
}

// writeTasksCSV writes a line for each task and row: spreadsheets and programs turn that round more
// easily than columns of any number.
func writeTasksCSV(w io.Writer, t app.Table) error {
	header := []string{"dataset", "task", "job", "agent", "trials", "scored_trials", "passed_trials", "mean_reward", "cost", "duration_sec", "error", "files_differ"}
	var rows [][]any
	for _, task := range t.Tasks {
		for i, a := range task.Cells {
			if a == nil {
				continue
			}
			var mean, duration, failure any
			if len(a.Scores) > 0 {
				mean = a.Mean()
			}
			if a.Ended > 0 {
				duration = a.DurationSec
			}
			if len(a.Errors) > 0 {
				failure = string(a.Errors[0])
			}
			rows = append(rows, []any{
				task.Dataset, task.Task, t.Rows[i].Job, t.Rows[i].Agent, a.Total, len(a.Scores), a.Passed, mean, dollarsOrNil(a.Cost), duration, failure, task.Changed,
			})
		}
	}
	return writeCSV(w, header, rows)
}
