package look

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/app/inspect"
	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/cli/flags"
	"github.com/org/rollout-action/internal/cli/tables"
	"github.com/org/rollout-action/internal/core/gate"
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
	agents     []string
	all        bool
	stored     flags.Stored
}

// NewCompareCommand returns the command compare.
func NewCompareCommand(v *command.Invocation) *cobra.Command {
	var opts compareOptions
	cmd := &cobra.Command{
		Use:   "compare JOB...",
		Short: "Put several jobs, or the agents of one, into one table, an agent or a task a row",
		Long: `Show agents of several jobs, or the agents of one job, side by side: trials, pass rate with its 95% interval, mean reward,
cost and time. Each JOB is as in "rollout diff":
a directory, a name below jobs/, the file of a job's result, a URL of one, or github:BRANCH.

Only tasks count that have the same files and a score in every row, so that all rows are about the same; --all-tasks counts
every task of each row. As in "rollout diff", an attempt that its agent, the verifier or a judge lost scores 0, and one that the
infrastructure or a cancel ended has no score. TRIALS are the trials with a score, of all. "–" means unknown.

With --by task the tasks are the rows: the mean reward, and how many of the attempts passed.

With --agents only these are rows, in this order, and each is compared with each later one: with a skill and without it, two
models, two prompts. Pass rate, mean reward, cost, turns and time are tested as the gate does, paired by task, two-sided, with
intervals; with more than two rows corrected for the number of pairs (Holm).
` + command.DoneCodes,
		Example: `  rollout compare jobs/nightly
  rollout compare jobs/nightly --agents with-skill,without-skill
  rollout compare jobs/small jobs/medium jobs/large --format markdown
  rollout compare github:main jobs/pr --by task --format csv > tasks.csv`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return command.Usagef("%s needs a job, or several (see %s --help)", cmd.CommandPath(), cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(tableFormats, opts.format) {
				return command.Usagef("--format %s: want %s", opts.format, strings.Join(tableFormats, ", "))
			}
			if !slices.Contains(tableSides, opts.by) {
				return command.Usagef("--by %s: want %s", opts.by, strings.Join(tableSides, " or "))
			}
			if len(opts.agents) > 0 && opts.format == "csv" {
				return command.Usagef("--format csv has rows of one kind, without the comparisons of --agents: want text, markdown or json")
			}
			for i, agent := range opts.agents {
				opts.agents[i] = strings.TrimSpace(agent)
			}
			jobs := make([]string, len(args))
			for i, arg := range args {
				jobs[i] = v.Host().NamedJob(arg)
			}
			t, err := inspect.Tabulate(cmd.Context(), v.Host(), inspect.TableRequest{Jobs: jobs, Agents: opts.agents, All: opts.all, Stored: opts.stored.At(cmd.Flags().Changed)})
			if err != nil {
				return err
			}
			return printTable(v.Env, t, opts)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&opts.by, "by", "agent", "what the rows are: agent or task")
	fs.StringSliceVar(&opts.agents, "agents", nil, "compare these agents in pairs, as the gate does: A,B")
	fs.StringVar(&opts.format, "format", "text", "what to print: text, markdown, json or csv")
	fs.BoolVar(&opts.all, "all-tasks", false, "count every task of each row, also tasks that other rows do not have")
	opts.stored.Add(cmd)
	flags.Wants(fs, "format", "want "+strings.Join(tableFormats, ", "))
	flags.Wants(fs, "by", "want "+strings.Join(tableSides, " or "))
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(tableFormats, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("by", cobra.FixedCompletions(tableSides, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// printTable prints a table in the chosen format. Its notes go to stderr if stdout is JSON or CSV.
func printTable(e command.Env, t inspect.Table, opts compareOptions) error {
	byTask := opts.by == "task"
	switch opts.format {
	case "json":
		fmt.Fprint(e.Stderr, tableNotes(t))
		if !byTask {
			t.Tasks = nil
			return e.PrintJSON(struct {
				inspect.Table
				Tasks []inspect.TableTask `json:"tasks,omitempty"`
			}{Table: t})
		}
		return e.PrintJSON(t)
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
		tables.Markdown(&b, header, rows)
		for _, versus := range t.Versus {
			b.WriteString("\n")
			tables.Markdown(&b, versus.CellNames(), contrastCells(versus))
			b.WriteString("\n" + versus.Sentence(inspect.TableConfidence) + "\n")
		}
		for _, s := range tableLines(t) {
			b.WriteString("\n" + untrusted.Markdown(s) + "\n")
		}
	} else {
		writeTextTable(&b, header, rows)
		for _, versus := range t.Versus {
			b.WriteString("\n")
			writeTextTable(&b, versus.CellNames(), contrastCells(versus))
			b.WriteString(versus.Sentence(inspect.TableConfidence) + "\n")
		}
		b.WriteString("\n" + tableNotes(t))
	}
	_, err := io.WriteString(e.Stdout, b.String())
	return err
}

// contrastCells returns the rows of a comparison of two agents.
func contrastCells(v gate.Versus) [][]string {
	var rows [][]string
	for _, c := range v.Contrasts {
		rows = append(rows, c.Cells())
	}
	return rows
}

// writeTextTable writes a table with aligned columns. Its cells may be hostile.
func writeTextTable(b *strings.Builder, header []string, rows [][]string) {
	out := tables.New(b)
	for _, r := range append([][]string{header}, rows...) {
		for i := range r {
			r[i] = tables.Cell(r[i])
		}
		out.Row(r...)
	}
	_ = out.Flush() // to a buffer
}

// tableLines returns lines that name the jobs of a table and the trials that it counts.
func tableLines(t inspect.Table) []string {
	var out []string
	for _, j := range t.Jobs {
		out = append(out, "Of "+j.Text+".")
	}
	return append(out, t.Sentences()...)
}

func tableNotes(t inspect.Table) string { return strings.Join(tableLines(t), "\n") + "\n" }

// rowCells returns the table whose rows are agents. Numbers come first, so that no line begins with
// text from outside.
func rowCells(t inspect.Table) (header []string, rows [][]string) {
	header = []string{"TASKS", "TRIALS", "PASS RATE", "95% INTERVAL", "MEAN REWARD", "COST", "TIME", "AGENT"}
	models := slices.ContainsFunc(t.Rows, func(r inspect.TableRow) bool { return r.Usage != nil })
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
func taskCells(t inspect.Table) (header []string, rows [][]string) {
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
	case len(a.Scores()) > 0:
		return fmt.Sprintf("%s (%d/%d)", report.Number(a.Mean()), a.Passed, len(a.Scores()))
	}
	if errors := a.Sum().Errors; len(errors) > 0 {
		return string(errors[0])
	}
	return "no result"
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

func writeRowsCSV(w io.Writer, t inspect.Table) error {
	header := []string{
		"job", "agent", "tasks", "trials", "scored_trials", "passed_trials", "pass_rate", "pass_rate_low", "pass_rate_high", "mean_reward",
		"cost", "trials_without_cost", "duration_sec", "mean_duration_sec",
	}
	models := slices.ContainsFunc(t.Rows, func(r inspect.TableRow) bool { return r.Usage != nil })
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
func writeTasksCSV(w io.Writer, t inspect.Table) error {
	header := []string{"dataset", "task", "job", "agent", "trials", "scored_trials", "passed_trials", "mean_reward", "cost", "duration_sec", "error", "files_differ"}
	var rows [][]any
	for _, task := range t.Tasks {
		for i, a := range task.Cells {
			if a == nil {
				continue
			}
			var mean, duration, failure any
			if len(a.Scores()) > 0 {
				mean = a.Mean()
			}
			sum := a.Sum()
			if sum.Ended > 0 {
				duration = sum.DurationSec
			}
			if len(sum.Errors) > 0 {
				failure = string(sum.Errors[0])
			}
			rows = append(rows, []any{
				task.Dataset, task.Task, t.Rows[i].Job, t.Rows[i].Agent, int(a.Total), len(a.Scores()), a.Passed, mean, dollarsOrNil(sum.Cost), duration, failure, task.Changed,
			})
		}
	}
	return writeCSV(w, header, rows)
}
