// Package prove has the commands that tell how far tasks, tests and judges can be trusted:
// validate, verify, rejudge and judges.
package prove

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/proof"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/cli/flags"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/output/summary"
	"github.com/org/rollout-action/internal/run/prove"
	"github.com/org/rollout-action/reporters"
)

// proofCodes are the exit codes of validate.
const proofCodes = `
Exit codes:
  0    no problem found; with --run: every task is proven
  1    with --run: a task is not proven
  2    wrong usage, or without --run: there are problems
  3    rollout or its infrastructure failed
  130  cancelled`

// validateOptions are the flags of validate. Those from runs on mean something only with run.
type validateOptions struct {
	job        flags.Job
	taskFormat string
	format     string
	run        bool
	models     bool

	runs, nopRuns int
	offline       bool
	since, shard  string
	files         flags.Files
	github        string
	view          flags.View
	changed       func(string) bool
	onlyWithRun   []string // the flags that have no meaning where nothing is run
}

// NewValidateCommand returns the command validate.
func NewValidateCommand(v *command.Invocation) *cobra.Command {
	var opts validateOptions
	cmd := &cobra.Command{
		Use:   "validate JOB_FILE | DATASET | TASK",
		Short: "Check a job file or tasks before a job runs them; with --run, prove the tasks",
		Long: `Check a job file and every task that it would run, or a directory of tasks, or one task, and print
all problems at once, each with its place and the way out. Nothing is started. Tasks that the job's provider can
never run, such as those with services on a sandbox, are warnings. Only a remote provider (kubernetes, modal, fly) is
asked whether it would take the trials; a refusal is a warning.
The judges of a job's tasks are listed, with their models and the highest cost of judging a trial.

With --models each model that an agent or a judge uses is asked for one token, so that a wrong key, name or URL is
found before the first trial. Printed are the time of the answer, the model's own name and its price.

With --run every task is proven as well: its solution must score 1 in each of --runs runs, and doing nothing in
none of --nop-runs. The runs and their logs are kept in a job's directory. Exit code 1 means that a task is not proven,
3 that the infrastructure failed, so that the result is not known.

The rules that are checked; task.toml turns one off with: [metadata.lint.ignore] RULE = "the reason",
and lint.toml next to the tasks for all of them, with: [ignore] RULE = "the reason", or select = [RULE, ...]
` + ruleTable() + proofCodes,
		Example: `  rollout validate job.yaml
  rollout validate job.yaml --set environment.type=docker
  rollout validate job.yaml --models
  rollout validate --run evals/ --env-type sandbox`,
		Args: command.OneArg("a job file or a directory of tasks"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !opts.run {
				req, err := opts.request(args[0])
				if err != nil {
					return err
				}
				return validate(cmd.Context(), v, req, opts.models, opts.format == flags.FormatJSON)
			}
			req, format, err := opts.proof(args[0], v.Getenv)
			if err != nil {
				return err
			}
			return Prove(cmd.Context(), v, req, format, opts.view.Format)
		},
	}
	opts.changed = cmd.Flags().Changed
	opts.job.Add(cmd)
	opts.view.Add(cmd)
	flags.Grouped(cmd, flags.ForSelection, func(fs *pflag.FlagSet) {
		fs.StringVar(&opts.taskFormat, "task-format", "", "whose rules the tasks of a directory follow: rollout (the default) or harbor")
	})
	opts.addProof(cmd, v.Reporters.Proofs())
	return cmd
}

func (o *validateOptions) addProof(cmd *cobra.Command, formats reporters.Table) {
	flags.Grouped(cmd, flags.ForProof, func(fs *pflag.FlagSet) {
		fs.BoolVar(&o.run, "run", false, "prove the tasks: run each with its solution and without doing anything, and check the rewards")
		fs.IntVar(&o.runs, "runs", stages.DefaultRuns, "how often the solution of each task is run")
		fs.IntVar(&o.nopRuns, "nop-runs", stages.DefaultNopRuns, "how often each task is run without doing anything")
		fs.BoolVar(&o.offline, "offline", false, "run each solution once more without any network, and say which tasks need one")
		fs.StringVar(&o.since, "changed", "", "only tasks with files that changed since this commit, branch or tag, committed or not")
		fs.StringVar(&o.shard, "shard", "", "only this part of the tasks, as in 2/4, or auto for the part that the CI system numbers")
		o.files.Add(fs, formats, false)
		fs.StringVar(&o.github, "github", "auto", "write the job summary, annotations and outputs of a GitHub workflow: auto (in a workflow), on or off")
		flags.Wants(fs, "github", "want auto, on or off")
		flags.Wants(fs, "changed", "name a commit, branch or tag, or leave it out")
	})
	o.onlyWithRun = []string{"log-format"}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if flags.HeadingOf(f) == flags.ForProof && f.Name != "run" {
			o.onlyWithRun = append(o.onlyWithRun, f.Name)
		}
	})
	cmd.Flags().BoolVar(&o.models, "models", false, "ask each model of the job for one token (not with --run)")
	cmd.Flags().StringVar(&o.format, "format", flags.FormatText, "the format of the output: "+flags.FormatList(formats)+"; without --run text or json")
	flags.Wants(cmd.Flags(), "format", "want "+flags.FormatList(formats)+"; without --run text or json")
}

// request returns what a command line without --run asks for.
func (o *validateOptions) request(target string) (stages.JobRequest, error) {
	for _, flag := range o.onlyWithRun {
		if o.changed(flag) {
			return stages.JobRequest{}, command.Usagef("--%s is for tasks that are run: it needs --run", flag)
		}
	}
	if o.format != flags.FormatText && o.format != flags.FormatJSON {
		return stages.JobRequest{}, command.Usagef("--format %s without --run: want text or json", untrusted.Line(o.format))
	}
	req, err := o.job.Request(target)
	req.TaskFormat = o.taskFormat
	return req, err
}

// proof returns what a command line with --run asks for, and the format to print.
func (o *validateOptions) proof(target string, getenv func(string) (string, bool)) (req proof.ProveRequest, format string, err error) {
	if o.models {
		return req, "", command.Usagef("--models has no meaning with --run, which runs no agents")
	}
	for _, flag := range []string{"agent", "n-attempts"} {
		if o.changed(flag) {
			return req, "", command.Usagef("--%s has no meaning with --run, which runs oracle and nop: see --runs and --nop-runs", flag)
		}
	}
	if _, ok := o.files.Formats.Find(o.format); !ok && o.format != flags.FormatText {
		return req, "", command.Usagef("--format %s: want %s", untrusted.Line(o.format), flags.FormatList(o.files.Formats))
	}
	files, printed, err := o.files.Parse()
	if err != nil {
		return req, "", err
	}
	if format, err = flags.ToPrint(o.format, printed); err != nil {
		return req, "", err
	}
	req = proof.ProveRequest{
		Runs: o.runs, NopRuns: o.nopRuns, Offline: o.offline, Since: o.since,
		Reports: proof.ProveReports{
			Files: files, GitHub: o.github,
			NoAnnotations: format == reporters.Annotations, // which would be the second of each
		},
	}
	if req.Job, err = o.job.Request(target); err != nil {
		return req, "", err
	}
	req.Job.TaskFormat = o.taskFormat
	req.Shard, err = host.ParseShard(o.shard, getenv)
	return req, format, err
}

// ruleTable lists the rules for help.
func ruleTable() string {
	var b strings.Builder
	for _, r := range prove.Rules {
		fmt.Fprintf(&b, "  %-18s %s\n", r.ID, r.Doc)
	}
	return b.String()
}

// findings is what validate prints when nothing is run.
type findings struct {
	SchemaVersion int       `json:"schema_version"`
	Valid         bool      `json:"valid"` // whether the command ends with 0
	Agents        int       `json:"agents"`
	Tasks         int       `json:"tasks"`
	NoSolution    int       `json:"tasks_without_solution"` // which only the oracle minds
	Attempts      int       `json:"attempts"`
	Trials        int       `json:"trials"`
	Problems      []problem `json:"problems"` // in the order in which the text has them; never null
	Models        []asked   `json:"models,omitempty"`
	Judged        []judged  `json:"judged,omitempty"`
}

// judged are tasks with the same judges. Costs are in US dollars; null: there is no limit.
type judged struct {
	Tasks   []string    `json:"tasks"`
	Judges  []taskJudge `json:"judges"`
	MaxCost *float64    `json:"max_cost_usd"` // of all attempts of all judges in one trial
	// GroupCost is that of judges of groups, in one task; null also if there are none.
	GroupCost *float64 `json:"max_group_cost_usd,omitempty"`
}

type taskJudge struct {
	Name      string   `json:"name"`
	Agent     string   `json:"agent"`
	Model     string   `json:"model"`
	Placement string   `json:"placement"` // "" for a call
	Attempts  int      `json:"attempts"`
	MaxCost   *float64 `json:"max_cost_usd"` // of one attempt
	Orders    int      `json:"orders,omitempty"`
}

func judgedOf(list []stages.JudgedTasks) []judged {
	var out []judged
	for _, g := range list {
		one := judged{Tasks: g.Tasks, MaxCost: g.MaxCostUSD}
		for _, j := range g.Judges {
			one.Judges = append(one.Judges, taskJudge{j.Name, j.Agent, j.Model, j.Placement, j.Attempts, j.MaxCostUSD, j.Orders})
			if j.Orders > 0 {
				one.GroupCost = g.GroupCostUSD
			}
		}
		out = append(out, one)
	}
	return out
}

// judgesOf returns lines about the judges of tasks.
func judgesOf(g stages.JudgedTasks) string {
	var b strings.Builder
	limit := func(usd *float64) string {
		if usd == nil {
			return "no limit: a judge has no budget.max_cost_usd"
		}
		return fmt.Sprintf("at most $%s", perMillion(*usd))
	}
	var costs []string
	groups := slices.ContainsFunc(g.Judges, func(j stages.TaskJudge) bool { return j.Orders > 0 })
	if slices.ContainsFunc(g.Judges, func(j stages.TaskJudge) bool { return j.Orders == 0 }) {
		costs = append(costs, "cost in each trial: "+limit(g.MaxCostUSD))
	}
	if groups {
		costs = append(costs, "cost of ranking the trials of each task: "+limit(g.GroupCostUSD))
	}
	var tasks []string
	for _, name := range g.Tasks[:min(len(g.Tasks), maxListed)] {
		tasks = append(tasks, untrusted.Line(name))
	}
	if more := len(g.Tasks) - len(tasks); more > 0 {
		tasks = append(tasks, fmt.Sprintf("%d more", more))
	}
	fmt.Fprintf(&b, "judges of %s; %s\n", strings.Join(tasks, ", "), strings.Join(costs, "; "))
	for _, j := range g.Judges {
		where := map[string]string{"": "one call", "trial": "in the agent's environment", "fresh": "in a fresh environment"}[j.Placement]
		agent := ""
		if j.Placement != "" {
			agent = "agent " + untrusted.Line(j.Agent) + ", "
		}
		model := "model " + untrusted.Line(j.Model)
		if j.Policy {
			model = "the model of the trial's agent"
		}
		cost := "no limit"
		if j.MaxCostUSD != nil {
			cost = fmt.Sprintf("at most $%s", perMillion(*j.MaxCostUSD))
			if j.Attempts > 1 {
				cost += fmt.Sprintf(" in each of %d attempts", j.Attempts)
			}
		}
		if j.Orders > 0 {
			where += ", ranks all trials of a task in " + plural.Count(j.Orders, "order")
			cost = strings.Replace(cost, "in each of", "in each order, and each of", 1)
		}
		fmt.Fprintf(&b, "  %s: %s%s, %s; %s\n", untrusted.Line(j.Name), agent, where, model, cost)
	}
	return b.String()
}

// maxListed is how many tasks with the same judges are listed.
const maxListed = 5

// asked is a model that was asked. Prices are in US dollars per million tokens; null: not known.
type asked struct {
	Name        string   `json:"name"`
	API         string   `json:"api"`
	Model       string   `json:"requested_model"`
	Answered    string   `json:"answered_model"`
	LatencySec  *float64 `json:"latency_sec"` // null: it did not answer
	InputPrice  *float64 `json:"input_price"`
	OutputPrice *float64 `json:"output_price"`
	Error       string   `json:"error"`
}

func askedOf(list []stages.AskedModel) []asked {
	var out []asked
	for _, m := range list {
		one := asked{Name: m.Name, API: m.API, Model: m.Asked, Answered: m.Answered, InputPrice: m.Input, OutputPrice: m.Output, Error: m.Err}
		if m.Err == "" && !m.Replays {
			one.LatencySec = new(m.Latency.Seconds())
		}
		out = append(out, one)
	}
	return out
}

// answered returns a line about a model that has answered.
func answered(m stages.AskedModel) string {
	price := "price not known"
	if m.Input != nil && m.Output != nil {
		price = fmt.Sprintf("$%s for a million tokens of input, $%s of output", perMillion(*m.Input), perMillion(*m.Output))
	}
	if m.Replays {
		return fmt.Sprintf("model %s: %s answers from records, and was not asked; %s", untrusted.Line(m.Name), untrusted.Line(m.Asked), price)
	}
	return fmt.Sprintf("model %s: %s answered in %.1f s; %s", untrusted.Line(m.Name), cmp.Or(m.Answered, untrusted.Line(m.Asked)), m.Latency.Seconds(), price)
}

// perMillion writes a price: 3, 0.25.
func perMillion(usd float64) string { return strconv.FormatFloat(math.Round(usd*1e6)/1e6, 'f', -1, 64) }

// problem is a diag.Diagnostic. Line and Column count from 1; 0: the whole file.
type problem struct {
	Severity prove.Severity `json:"severity"`
	File     string         `json:"file"`
	Line     int            `json:"line"`
	Column   int            `json:"column"`
	Message  string         `json:"message"`
	Hint     string         `json:"hint"`
}

func problemsOf(list diag.List) []problem {
	out := make([]problem, len(list))
	for i, d := range list {
		severity := prove.Error
		if d.Severity == diag.Warning {
			severity = prove.Warning
		}
		out[i] = problem{Severity: severity, File: d.File, Line: d.Line, Column: d.Column, Message: d.Message, Hint: d.Hint}
	}
	return out
}

// validate prints the problems of a job or of tasks, without running anything. models: it also asks
// the job's models.
func validate(ctx context.Context, v *command.Invocation, req stages.JobRequest, models, asJSON bool) error {
	found := findings{SchemaVersion: 1}
	checked, err := proof.Validate(ctx, v.Host(), req, models)
	var wrong diag.List
	switch {
	case asJSON && errors.As(err, &wrong): // the job itself is wrong
		found.Problems = problemsOf(wrong)
		return errors.Join(v.PrintJSON(found), &command.Failure{Code: command.ExitUsage})
	case err != nil:
		return err
	}
	problems := checked.Problems
	for i := range problems {
		problems[i].File = v.Shown(problems[i].File)
	}
	wrongs := len(problems.Errors())
	found.Valid = wrongs == 0
	found.Agents, found.Tasks, found.Attempts, found.Trials = checked.Agents, checked.Tasks, checked.Attempts, checked.Trials
	found.NoSolution, found.Models, found.Judged = checked.NoSolution, askedOf(checked.Models), judgedOf(checked.Judged)
	if asJSON {
		found.Problems = problemsOf(problems)
		err = v.PrintJSON(found)
	} else {
		printProblems(v.Stdout, problems)
		for _, m := range checked.Models {
			if m.Err == "" {
				fmt.Fprintln(v.Stdout, answered(m))
			}
		}
		for _, g := range checked.Judged {
			fmt.Fprint(v.Stdout, judgesOf(g))
		}
		fmt.Fprintln(v.Stdout, validity(checked, wrongs))
	}
	if err == nil && !found.Valid {
		err = &command.Failure{Code: command.ExitUsage}
	}
	return err
}

// How often a warning is printed: up to mostAlike times, else for the first firstAlike files.
const mostAlike, firstAlike = 5, 3

// printProblems prints problems, those that are equal once. Of many warnings that differ only in
// their places it prints the first, and how many there are.
func printProblems(w io.Writer, problems diag.List) {
	problems = slices.Clone(problems)
	seen := map[diag.Diagnostic]bool{}
	problems = slices.DeleteFunc(problems, func(d diag.Diagnostic) bool {
		again := seen[d]
		seen[d] = true
		return again
	})
	alike := map[string]int{}
	for _, d := range problems {
		if d.Severity == diag.Warning {
			alike[d.Message]++
		}
	}
	printed := map[string]int{}
	for _, d := range problems {
		n := alike[d.Message]
		switch printed[d.Message]++; {
		case d.Severity != diag.Warning, n <= mostAlike, printed[d.Message] <= firstAlike:
			fmt.Fprintln(w, d)
		case printed[d.Message] == n:
			fmt.Fprintf(w, "%s more: %s (--format json lists them)\n", plural.Count(n-firstAlike, "warning"), d.Message)
		}
	}
}

// validity returns the last line of the text.
func validity(c proof.Checked, wrong int) string {
	file, tasks := untrusted.Line(c.File), plural.Count(c.Tasks, "task")
	switch without := ""; {
	case wrong > 0:
		return fmt.Sprintf("%s: %s", file, plural.Count(wrong, "problem"))
	case c.Implied:
		if c.NoSolution > 0 {
			without = fmt.Sprintf(", %d without a solution", c.NoSolution)
		}
		return fmt.Sprintf("%s is valid: %s%s (--run proves them)", file, tasks, without)
	}
	return fmt.Sprintf("%s is valid: %s × %s × %s = %s", file, plural.Count(c.Agents, "agent"), tasks, plural.Count(c.Attempts, "attempt"), plural.Count(c.Trials, "trial"))
}

// Prove proves tasks and prints what that came to.
func Prove(ctx context.Context, v *command.Invocation, req proof.ProveRequest, format, logFormat string) error {
	host, err := v.HostShowing(logFormat)
	if err != nil {
		return err
	}
	report, err := proof.Prove(ctx, host, req)
	if report == nil {
		return err
	}
	if format == flags.FormatText {
		color, width := v.StdoutStyle()
		summary.WriteProof(v.Stdout, *report, color, width)
	} else if printed := v.Reporters.WriteProof(v.Stdout, format, *report, reporters.Options{}); !v.ClosedStdout(printed) { // the exit code is still the proof's
		err = errors.Join(err, printed)
	}
	if err != nil {
		return err
	}
	switch report.Outcome() {
	case prove.Passed:
		return nil
	case prove.Stopped:
		return &command.Failure{Code: command.ExitCancelled}
	case prove.Incomplete:
		return &command.Failure{Code: command.ExitFailed}
	}
	return &command.Failure{Code: command.ExitGate}
}
