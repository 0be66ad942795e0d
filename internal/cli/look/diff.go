package look

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/app/library"
	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/cli/flags"
	"github.com/org/rollout-action/internal/cli/tables"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// diffOptions are the flags of diff.
type diffOptions struct {
	asJSON bool
	stored flags.Stored
}

// NewDiffCommand returns the command diff.
func NewDiffCommand(v *command.Invocation) *cobra.Command {
	var opts diffOptions
	cmd := &cobra.Command{
		Use:   "diff [BASE [HEAD]]",
		Short: "Compare two jobs, task by task: what broke, what was fixed",
		Long: `Compare two jobs, task by task, and print what changed. Each is a job's directory, its name below jobs/, its
result.json, the URL of one (https, s3), or github:BRANCH for the last results on a branch. HEAD is the newest job, and BASE
the one before it, unless they are given. Tasks whose files changed are only listed, not compared.
Nothing is judged: the exit code is 0 whatever changed. See "rollout report --baseline" for a gate.
` + command.DoneCodes,
		Example: `  rollout diff
  rollout diff jobs/main jobs/pr
  rollout diff main/result.json jobs/pr --json | jq .changes
  rollout diff github:main jobs/pr`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 2 {
				return command.Usagef("%s takes two jobs, got %d (see %s --help)", cmd.CommandPath(), len(args), cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			base, head, err := twoJobs(cmd.Context(), v, args)
			if err != nil {
				return err
			}
			req := reporting.CompareRequest{Base: base, Head: head, Stored: opts.stored.At(cmd.Flags().Changed)}
			c, err := reporting.Compare(cmd.Context(), v.Host(), req)
			if err != nil {
				return err
			}
			return printComparison(v.Env, c, opts.asJSON)
		},
	}
	cmd.Flags().BoolVar(&opts.asJSON, "json", false, "print JSON: base, head, changes, flaky, overall, agents, groups and tasks")
	opts.stored.Add(cmd)
	return cmd
}

// twoJobs returns the jobs to compare: those that are named, else the newest, of which stderr says
// the names.
func twoJobs(ctx context.Context, v *command.Invocation, args []string) (base, head string, err error) {
	for i, arg := range args {
		args[i] = v.Host().NamedJob(arg)
	}
	if len(args) == 2 {
		return args[0], args[1], nil
	}
	newest, err := library.NewestJobs(ctx, v.Host(), 2-len(args))
	if err != nil {
		return "", "", err
	}
	if len(args) == 1 && filepath.Clean(args[0]) == newest[0] {
		return "", "", command.Usagef("%s is the newest job: give the job to compare it with, too", untrusted.Line(args[0]))
	}
	slices.Reverse(newest)
	for _, dir := range newest {
		fmt.Fprintf(v.Stderr, "Taking a job: %s\n", untrusted.ShellPath(dir))
	}
	args = append(slices.Clone(args), newest...)
	return args[0], args[1], nil
}

// printComparison prints what differs between two jobs.
func printComparison(e command.Env, c reporting.Comparison, asJSON bool) error {
	sides := fmt.Sprintf("Base: %s\nHead: %s\n", c.Base, c.Head)
	if c.Note != "" {
		sides += "Note: " + c.Note + ".\n"
	}
	if asJSON {
		fmt.Fprint(e.Stderr, sides)
		return e.PrintJSON(c.Diff)
	}
	var b strings.Builder
	b.WriteString(sides)
	writeDiff(&b, c.Diff, shownRows(e))
	_, err := io.WriteString(e.Stdout, b.String())
	return err
}

// writeDiff prints a diff as text: what changed, the most telling first, then the numbers, then
// the counts, and why a job ended early. It prints at most this many rows of changed tasks.
func writeDiff(w io.Writer, d result.Diff, rows int) {
	changed := slices.DeleteFunc(slices.Clone(d.Tasks), func(t result.TaskDiff) bool { return t.Change == result.Same && !t.Flaky })
	slices.SortStableFunc(changed, func(a, b result.TaskDiff) int {
		return cmp.Compare(slices.Index(result.Changes, a.Change), slices.Index(result.Changes, b.Change))
	})
	if len(changed) > 0 {
		fmt.Fprintln(w)
		t := tables.New(w)
		t.Row("CHANGE", "AGENT", "DATASET", "TASK", "BASE", "HEAD")
		for _, c := range changed[:min(len(changed), rows)] {
			what := string(c.Change)
			if c.Flaky {
				what += ", flaky"
			}
			if text := c.ConfirmedText(); text != "" {
				what += ", " + text
			}
			t.Row(what, untrusted.Line(c.Agent), untrusted.Line(c.Dataset), untrusted.Line(c.Task), attemptsText(c.Base), attemptsText(c.Head))
		}
		_ = t.Flush() // to a buffer
		writeRest(w, len(changed)-rows)
	}
	if d.Overall.Tasks > 0 {
		writeGroups(w, d)
	}
	fmt.Fprintf(w, "\n%s\n", countsText(d))
	for side, job := range []result.Job{d.Base, d.Head} {
		if text := job.Rounds.Sentence(0); text != "" {
			fmt.Fprintf(w, "%s: %s\n", []string{"Base", "Head"}[side], untrusted.Line(text))
		}
	}
	if d.Overall.Tasks > 0 {
		fmt.Fprintln(w, "The words are about these trials alone: chance can make and hide differences (rollout report --baseline tests them).")
	}
}

// writeGroups prints the levels of all, of agents with several datasets, and of agents on datasets.
func writeGroups(w io.Writer, d result.Diff) {
	fmt.Fprintf(w, "\nOn the %s that can be compared, each counting once, by the mean of its trials:\n", plural.Count(d.Overall.Tasks, "task"))
	t := tables.New(w)
	header := []string{"TASKS", "PASS RATE", "MEAN REWARD", "COST/TRIAL", "TIME/TRIAL"}
	if d.Overall.Usage != nil {
		header = append(header, "TURNS", "INPUT", "OUTPUT", "MODEL TIME")
	}
	t.Row(append(header, "OF")...)
	datasets := map[string]int{}
	for _, g := range d.Groups {
		if g.Tasks > 0 {
			datasets[g.Agent]++
		}
	}
	groups := []result.GroupDiff{d.Overall}
	for _, g := range d.Agents {
		if datasets[g.Agent] > 1 {
			groups = append(groups, g)
		}
	}
	if len(d.Groups) > 1 {
		groups = append(groups, d.Groups...)
	}
	for _, g := range groups {
		if g.Tasks == 0 {
			continue
		}
		change := g.Delta()
		cost := costFromTo(g.Base.Cost, g.Head.Cost)
		if !g.CostsComparable() {
			cost = report.Cost(g.Base.Cost) + " → " + report.Cost(g.Head.Cost) + " (not comparable)"
		}
		cells := []string{
			strconv.Itoa(g.Tasks),
			fromTo(fmt.Sprintf("%.1f%%", g.Base.PassRate*100), fmt.Sprintf("%.1f%%", g.Head.PassRate*100), fmt.Sprintf("%+.1f", change.PassRate*100)),
			fromTo(rewardText(g.Base.MeanReward), rewardText(g.Head.MeanReward), fmt.Sprintf("%+.3g", change.MeanReward)),
			cost,
			timeFromTo(g),
		}
		if d.Overall.Usage != nil {
			cells = append(cells, usageCells(g)...)
		}
		t.Row(append(cells, groupName(g))...)
	}
	_ = t.Flush() // to a buffer
	writeUsageNotes(w, d)
	writeScores(w, d)
}

// writeScores prints how the scores of judges changed.
func writeScores(w io.Writer, d result.Diff) {
	rows, notes := report.ScoreChanges(&d)
	if len(rows) > 0 {
		fmt.Fprintln(w, "\nScores of judges, from 0 to 1, on the tasks that have them on both sides:")
		t := tables.New(w)
		head := []string{"AGENT", "SCORE"}
		for _, column := range report.ScoreChangeHead {
			head = append(head, strings.ToUpper(column))
		}
		t.Row(head...)
		for _, r := range rows {
			t.Row(append([]string{untrusted.Line(r.Agent), untrusted.Line(r.Name)}, r.Cells...)...)
		}
		_ = t.Flush() // to a buffer
	}
	for _, n := range notes {
		fmt.Fprintf(w, "Note: %s.\n", untrusted.Line(n))
	}
}

// usageCells returns the turns, tokens and model time of a group, means per trial, from the
// baseline to now.
func usageCells(g result.GroupDiff) []string {
	cells := []string{"–", "–", "–", "–"}
	if g.Usage == nil {
		return cells
	}
	base, head := report.UsageLevels(g.Usage.Base), report.UsageLevels(g.Usage.Head)
	changes := report.UsageChanges(*g.Usage)
	for at, i := range []int{0, 1, 2, 4} { // the cost of a trial has its column
		cells[at] = head[i]
		if base[i] != head[i] {
			cells[at] = fmt.Sprintf("%s → %s (%s)", base[i], head[i], changes[i])
		}
	}
	return cells
}

// writeUsageNotes says what the usages of agents cannot tell.
func writeUsageNotes(w io.Writer, d result.Diff) {
	if d.Overall.Usage == nil {
		return
	}
	fmt.Fprintln(w, "\nTurns, tokens (input and output), and the time of models are means per trial.")
	for _, g := range d.Agents {
		if g.Usage == nil {
			continue
		}
		if notes := report.UsageNotes(*g.Usage); len(notes) > 0 {
			fmt.Fprintf(w, "Note: %s: %s.\n", untrusted.Line(g.Agent), untrusted.Line(strings.Join(notes, "; ")))
		}
	}
}

func groupName(g result.GroupDiff) string {
	switch {
	case g.Agent == "" && g.Dataset == "":
		return "all"
	case g.Dataset == "":
		return untrusted.Line(g.Agent)
	}
	return untrusted.Line(g.Agent) + " on " + untrusted.Line(g.Dataset)
}

func costFromTo(from, to result.USD) string {
	before, after := report.Cost(from), report.Cost(to)
	if from.AtLeast() || to.AtLeast() {
		return before + " → " + after + " (not comparable)"
	}
	if _, ok := to.Minus(from).Reported(); !ok && before != after {
		return before + " → " + after
	}
	return fromTo(before, after, report.PercentChange(from.Amount(), to.Amount()))
}

// timeFromTo returns the durations of the trials of a group.
func timeFromTo(g result.GroupDiff) string {
	change := g.Delta().DurationSec
	if change == nil {
		return "–"
	}
	return fromTo(fmt.Sprintf("%.1fs", *g.Base.DurationSec), fmt.Sprintf("%.1fs", *g.Head.DurationSec), fmt.Sprintf("%+.1f", *change))
}

// fromTo formats a change; if both texts are equal, it returns only the value.
func fromTo(from, to, change string) string {
	if from == to {
		return to
	}
	return fmt.Sprintf("%s → %s (%s)", from, to, change)
}

// attemptsText returns the mean reward and how many of the attempts passed, or why there is none.
func attemptsText(a *result.Attempts) string {
	switch {
	case a == nil:
		return "–"
	case len(a.Rewards) > 0:
		return fmt.Sprintf("%s (%d of %d passed)", rewardText(a.Mean()), a.Passed, a.Total)
	}
	if errors := a.Sum().Errors; len(errors) > 0 {
		return untrusted.Line(string(errors[0]))
	}
	return "no result"
}

// rewardText formats a number to three digits, without an exponent where that is readable.
func rewardText(v float64) string {
	if m := math.Abs(v); m != 0 && (m < 0.001 || m >= 1e6) {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64)
}

// countsText returns a text such as "100 tasks: 1 broken, 2 fixed, 97 same; 3 flaky.".
func countsText(d result.Diff) string {
	var counts []string
	for _, c := range result.Changes {
		if n := d.Counts[c]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, c))
		}
	}
	text := plural.Count(len(d.Tasks), "task") + ": " + strings.Join(counts, ", ")
	if d.Flaky > 0 {
		text += fmt.Sprintf("; %d flaky", d.Flaky)
	}
	var left []string
	if n := d.NotAffected; n > 0 {
		left = append(left, plural.Count(n, "task")+" of the base that the head left out, because what changed cannot affect them")
	}
	if n := d.NotSelected; n > 0 {
		left = append(left, plural.Count(n, "task")+" of the base that the head did not select")
	}
	switch {
	case len(counts) == 0 && len(left) == 0:
		return "Neither job has a task."
	case len(counts) == 0:
		text = "No task to compare"
	}
	return strings.Join(append([]string{text}, left...), ", and ") + "."
}
