package prove

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/app/calibrate"
	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/cli/flags"
	"github.com/org/rollout-action/internal/cli/tables"
	"github.com/org/rollout-action/internal/core/agreement"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// judgesCodes are the exit codes of judges.
const judgesCodes = `
Exit codes:
  0    done
  1    done, but a judge agrees less than --min-agreement or --min-kappa
  2    wrong usage, or an invalid file
  3    rollout failed, or something that it needs
  130  cancelled`

// NewJudgesCommand returns the command judges.
func NewJudgesCommand(v *command.Invocation) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "judges",
		Short: "Check judges against labels of people",
		Long:  "Check how far the verdicts of judges can be trusted. See also \"rollout rejudge\" for how stable they are.\n" + judgesCodes,
		Example: `  rollout judges check jobs/nightly --template
  rollout judges check jobs/nightly --labels labels.csv`,
		Args: command.UnknownSubcommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Help()
			return &command.Failure{Code: command.ExitUsage}
		},
	}
	cmd.AddCommand(newJudgesCheckCommand(v))
	return cmd
}

// labelsFile is the file that judges check --template writes.
const labelsFile = "labels.csv"

// judgesCheckOptions are the flags of judges check.
type judgesCheckOptions struct {
	req                 calibrate.CheckRequest
	template            bool
	format              string
	minAgree, minKappa  float64
	wantAgree, wantKapp *float64
}

func newJudgesCheckCommand(v *command.Invocation) *cobra.Command {
	var opts judgesCheckOptions
	cmd := &cobra.Command{
		Use:   "check [JOB]",
		Short: "Compare the verdicts of judges with labels of people, and with each other",
		Long: `Compare the verdicts of a job's judges with labels of people: how often they agree, how often they would by chance, and
where they disagree most. Judges are compared with each other, too, and with the length of the transcripts.

--template writes a file of labels to be filled in with a spreadsheet: a line for each trial, and a column for each judge and
criterion. A label is one of the criterion's choices, a number from 0 to 1, or pass or fail. Leave out what you cannot tell. If
several people label, copy the lines, and write each person's name into the column rater. The order of the lines says nothing about the
verdicts, so the first of them are a sample.

Without --labels, judges are compared with each other only. JOB is a job's directory, or its name below jobs/; without it, the newest job is taken.
` + judgesCodes,
		Example: `  rollout judges check jobs/nightly --template --sample 50
  rollout judges check jobs/nightly --labels labels.csv
  rollout judges check jobs/nightly --labels labels.csv --judge quality --min-agreement 0.8`,
		Args: command.MaybeJob,
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return nil, cobra.ShellCompDirectiveFilterDirs
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if opts.req.Dir, _, err = v.JobAnd(cmd.Context(), args); err != nil {
				return err
			}
			if err := opts.check(cmd.Flags().Changed); err != nil {
				return err
			}
			if opts.template {
				n, err := calibrate.WriteLabels(v.Host(), opts.req)
				if err != nil {
					return err
				}
				fmt.Fprintf(v.Stdout, "%s with %s to be labelled. Then: rollout judges check %s --labels %s\n",
					untrusted.Line(opts.req.Labels), plural.Count(n, "trial"), untrusted.ShellPath(opts.req.Dir), untrusted.ShellPath(opts.req.Labels))
				return nil
			}
			checked, err := calibrate.CheckJudges(v.Host(), opts.req)
			if err != nil {
				return err
			}
			return printChecked(v, checked, opts)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&opts.req.Labels, "labels", "", "the `file` of labels; with --template, the file to be written (default: labels.csv)")
	fs.BoolVar(&opts.template, "template", false, "write a file of labels to be filled in")
	fs.IntVar(&opts.req.Sample, "sample", 0, "with --template: at most so many trials")
	fs.StringSliceVar(&opts.req.Judges, "judge", nil, "only judges and criteria with these names: JUDGE or JUDGE.CRITERION")
	fs.Float64Var(&opts.req.Threshold, "threshold", 0.5, "where labels are pass or fail: a score as high as this passes")
	fs.Float64Var(&opts.req.Tolerance, "tolerance", 0.1, "where labels are numbers: scores agree that differ by at most this")
	fs.Float64Var(&opts.minAgree, "min-agreement", 0, "fail if a judge agrees with a smaller share of its labels")
	fs.Float64Var(&opts.minKappa, "min-kappa", 0, "fail if a judge has a smaller kappa")
	fs.StringVar(&opts.format, "format", flags.FormatText, "what to print: text or json")
	flags.Wants(fs, "format", "want text or json")
	return cmd
}

// check refuses flags that do not fit together.
func (o *judgesCheckOptions) check(changed func(string) bool) error {
	for _, least := range []struct {
		flag  string
		value *float64
		to    **float64
		low   float64
	}{{"min-agreement", &o.minAgree, &o.wantAgree, 0}, {"min-kappa", &o.minKappa, &o.wantKapp, -1}} {
		switch {
		case !changed(least.flag):
			continue
		case !(*least.value >= least.low && *least.value <= 1):
			return command.Usagef("--%s %g: want a number from %g to 1", least.flag, *least.value, least.low)
		case o.template || o.req.Labels == "":
			return command.Usagef("--%s needs labels: give --labels, and leave out --template", least.flag)
		}
		*least.to = least.value
	}
	switch {
	case o.format != flags.FormatText && o.format != "json":
		return command.Usagef("--format %s: want text or json", untrusted.Line(o.format))
	case o.template && o.req.Labels == "":
		o.req.Labels = labelsFile
	case !o.template && changed("sample"):
		return command.Usagef("--sample is about --template")
	}
	if o.req.Sample < 0 || changed("sample") && o.req.Sample == 0 {
		return command.Usagef("--sample %d: want 1 or more", o.req.Sample)
	}
	return nil
}

// printChecked prints how judges agree. It fails if one agrees less than wanted.
func printChecked(v *command.Invocation, c calibrate.CheckedJudges, o judgesCheckOptions) error {
	if o.format == "json" {
		if err := v.PrintJSON(c); err != nil {
			return err
		}
	} else {
		var b strings.Builder
		writeChecked(&b, c)
		if _, err := io.WriteString(v.Stdout, b.String()); err != nil {
			return err
		}
	}
	below := c.Below(o.wantAgree, o.wantKapp)
	for _, text := range below {
		fmt.Fprintf(v.Stderr, "rollout: %s\n", text)
	}
	if len(below) > 0 {
		return &command.Failure{Code: command.ExitGate}
	}
	return nil
}

// maxDisagreements is how many are shown of each judge.
const maxDisagreements = 5

func writeChecked(w io.Writer, c calibrate.CheckedJudges) {
	var labelled []calibrate.CheckedJudge
	for _, j := range c.Judges {
		if j.Measure != nil {
			labelled = append(labelled, j)
		}
	}
	for _, j := range labelled {
		writeSentences(w, j)
	}
	if len(labelled) > 0 {
		writeAgreements(w, labelled)
	}
	if c.Labels == "" {
		fmt.Fprintf(w, "No labels are given: rollout judges check %s --template writes a file to be filled in.\n", untrusted.ShellPath(c.Dir))
	}
	for _, j := range labelled {
		writeConfusion(w, j)
		writeDisagreements(w, j)
	}
	writePairs(w, c.Pairs)
	writeLengths(w, c.Judges)
	for _, j := range c.Judges {
		if j.Preference != nil {
			writePreference(w, j)
		}
	}
}

// writePreference says in words what a judge of groups prefers.
func writePreference(w io.Writer, j calibrate.CheckedJudge) {
	p := j.Preference
	fmt.Fprintf(w, "\n%s ranked the trials of %s, %s in all:\n", tables.Cell(j.Name), plural.Count(p.Groups, "task"), plural.Count(p.Rankings, "time"))
	for _, line := range []struct {
		share     *agreement.Estimate
		text      string
		half      bool // 50 % is what no preference gives
		low, high string
	}{
		{p.First, "it prefers the trial that is shown first in %s of the pairs", true, "it prefers the trial that is shown later: raise orders", "it prefers the trial that is shown first: raise orders"},
		{p.Same, "shown in another order, it says the same of %s of the pairs", false, "", ""},
		{p.Longer, "it prefers the longer transcript in %s of the pairs", true, "it prefers short ones, or short ones are better", "it prefers long ones, or long ones are better"},
		{p.Labels, fmt.Sprintf("it prefers the same trial as people in %%s of the %s with different labels", plural.Count(p.LabelledPairs, "pair")), true, "it prefers the other trial", "better than chance"},
	} {
		if line.share == nil {
			continue
		}
		value, between, known := strings.Cut(percent(line.share), ", ")
		fmt.Fprintf(w, "  "+line.text, value)
		if known {
			fmt.Fprint(w, ", "+between)
		}
		if e := line.share; line.half && e.Low != nil {
			what := "no sign of a preference"
			switch {
			case *e.High < 0.5:
				what = line.low
			case *e.Low > 0.5:
				what = line.high
			}
			fmt.Fprintf(w, ": %s", what)
		}
		fmt.Fprintln(w)
	}
	if p.Groups < 20 {
		fmt.Fprintf(w, "  This is little to judge by: rankings of %s.\n", plural.Count(p.Groups, "task"))
	}
}

// writeSentences says in words how a judge agrees with its labels.
func writeSentences(w io.Writer, j calibrate.CheckedJudge) {
	name, m := tables.Cell(j.Name), j.Measure
	if m.Agreement == nil {
		fmt.Fprintf(w, "%s has no score for any of its %s, so nothing can be compared.\n\n", name, plural.Count(j.Missing, "label"))
		return
	}
	what := "trial"
	if len(j.Raters) > 1 {
		what = "label"
	}
	fmt.Fprintf(w, "%s and your labels agree on %d of %s (%s).", name, m.Agree, plural.Count(m.Pairs, what), percent(m.Agreement))
	fmt.Fprintf(w, " By chance alone it would be %.0f %%", 100**m.Chance)
	switch {
	case m.Kappa == nil:
		fmt.Fprint(w, ".\n  Kappa cannot be computed, because all labels and all verdicts are the same. Label trials of both kinds: good ones and bad ones.\n")
	case m.Kappa.Value <= 0:
		fmt.Fprintf(w, ", so the judge is no better than chance.\n  Kappa is %s.\n", interval(m.Kappa))
	default:
		fmt.Fprintf(w, ", so it is %s.\n  Kappa is %s: 0 is agreement by chance, 1 is full agreement%s.\n", inWords(m.Kappa.Value), interval(m.Kappa), weights(m))
	}
	switch s := j.Scale; s.Kind {
	case agreement.Pass:
		fmt.Fprintf(w, "  The labels are pass and fail: a score of %g or more counts as pass (--threshold).\n", s.Threshold)
	case agreement.Score:
		fmt.Fprintf(w, "  Scores agree with labels if they differ by at most %g (--tolerance).\n", s.Tolerance)
	}
	if p := j.People; p != nil && p.Agreement != nil {
		fmt.Fprintf(w, "  People agree with each other on %d of %s (%s); a judge can hardly be expected to agree with them more often.\n", p.Agree, plural.Count(p.Pairs, "pair")+" of labels", percent(p.Agreement))
	}
	if need := agreement.Needed(m.Agreement.Value); m.Tasks < 20 {
		fmt.Fprintf(w, "  This is little to judge by: labels of %s. About %d tasks would show the agreement to within 10 points.\n", plural.Count(m.Tasks, "task"), need)
	}
	if j.Missing > 0 {
		fmt.Fprintf(w, "  %s not counted: the judge gave no score there.\n", plural.Count(j.Missing, "label")+" "+plural.Are(j.Missing))
	}
	fmt.Fprintln(w)
}

// inWords says what a kappa above 0 means. Source of the bounds: J. Landis and G. Koch, Biometrics
// 33 (1977) 159.
func inWords(kappa float64) string {
	switch {
	case kappa <= 0.2:
		return "hardly better than chance"
	case kappa <= 0.4:
		return "somewhat better than chance"
	case kappa <= 0.6:
		return "clearly better than chance, but not reliable"
	case kappa <= 0.8:
		return "much better than chance"
	}
	return "close to full agreement"
}

func weights(m *agreement.Agreement) string {
	if m.Weighted {
		return ", and a near miss counts less than a far one"
	}
	return ""
}

// percent returns a share and its interval, as "86 %, between 74 % and 93 %".
func percent(e *agreement.Estimate) string {
	text := fmt.Sprintf("%.0f %%", 100*e.Value)
	if e.Low != nil {
		text += fmt.Sprintf(", between %.0f %% and %.0f %%", 100**e.Low, 100**e.High)
	}
	return text
}

// interval returns a number and its interval.
func interval(e *agreement.Estimate) string {
	if e == nil {
		return "–"
	}
	text := two(e.Value)
	if e.Low != nil {
		text += fmt.Sprintf(" (between %s and %s)", two(*e.Low), two(*e.High))
	}
	return text
}

// two returns a number with two digits after the point.
func two(v float64) string {
	if text := strconv.FormatFloat(v, 'f', 2, 64); text != "-0.00" {
		return text
	}
	return "0.00"
}

func writeAgreements(w io.Writer, judges []calibrate.CheckedJudge) {
	table := tables.New(w)
	table.Row("JUDGE", "LABELS", "TASKS", "AGREE", "CHANCE", "KAPPA", "MEAN DIFFERENCE", "RANK CORRELATION", "NULL")
	for _, j := range judges {
		m, agree, chance := j.Measure, "–", "–"
		if m.Agreement != nil {
			agree, chance = fmt.Sprintf("%.0f %%", 100*m.Agreement.Value), fmt.Sprintf("%.0f %%", 100**m.Chance)
		}
		table.Row(tables.Cell(j.Name), strconv.Itoa(m.Pairs), strconv.Itoa(m.Tasks), agree, chance, interval(m.Kappa), interval(m.Difference), interval(m.Rank), strconv.Itoa(j.Null))
	}
	_ = table.Flush() // to a buffer
}

// maxConfusion is how many choices a table of them may have.
const maxConfusion = 8

// writeConfusion prints how often which label met which verdict.
func writeConfusion(w io.Writer, j calibrate.CheckedJudge) {
	m := j.Measure
	if len(m.Confusion) == 0 || len(m.Confusion) > maxConfusion || m.Agree == m.Pairs {
		return
	}
	fmt.Fprintf(w, "\n%s: verdicts (lines) and labels (columns)\n", tables.Cell(j.Name))
	table := tables.New(w)
	header := []string{""}
	for _, v := range j.Scale.Values {
		header = append(header, word(j, v))
	}
	table.Row(header...)
	for i, counts := range m.Confusion {
		row := []string{"  " + word(j, j.Scale.Values[i])}
		for _, n := range counts {
			row = append(row, strconv.Itoa(n))
		}
		table.Row(row...)
	}
	_ = table.Flush() // to a buffer
}

// word returns the choice that a value stands for, or the value.
func word(j calibrate.CheckedJudge, v float64) string {
	if j.Scale.Kind == agreement.Pass && v == 0 {
		return "fail"
	}
	if j.Scale.Kind == agreement.Pass && v == 1 {
		return "pass"
	}
	if i := slices.IndexFunc(j.Choices, func(c agreement.Choice) bool { return c.Value == v }); i >= 0 {
		return tables.Cell(j.Choices[i].Word)
	}
	return score3(v)
}

func writeDisagreements(w io.Writer, j calibrate.CheckedJudge) {
	if len(j.Disagreements) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s: where it disagrees most\n", tables.Cell(j.Name))
	for _, d := range j.Disagreements[:min(len(j.Disagreements), maxDisagreements)] {
		score := score3(d.Score)
		if j.Scale.Kind == agreement.Choices {
			score = word(j, d.Score)
		}
		rater := "label"
		if d.Rater != "" {
			rater = "label of " + tables.Cell(d.Rater)
		}
		fmt.Fprintf(w, "  %s: %s %s, judge %s\n", untrusted.Line(d.Trial), rater, word(j, d.Label), score)
		if d.Reason != "" {
			fmt.Fprintf(w, "    %s\n", untrusted.Cut(untrusted.Line(d.Reason), maxShownReason))
		}
	}
	if n := len(j.Disagreements) - maxDisagreements; n > 0 {
		fmt.Fprintf(w, "  and %d more (--format json has all)\n", n)
	}
}

func writePairs(w io.Writer, pairs []calibrate.JudgePair) {
	if len(pairs) == 0 {
		return
	}
	fmt.Fprintln(w, "\nJudges with each other:")
	table := tables.New(w)
	table.Row("JUDGES", "TRIALS", "AGREE", "CHANCE", "KAPPA", "MEAN DIFFERENCE", "RANK CORRELATION")
	for _, p := range pairs {
		m := p.Measure
		table.Row(tables.Cell(p.A)+", "+tables.Cell(p.B), strconv.Itoa(m.Pairs), percent(m.Agreement), fmt.Sprintf("%.0f %%", 100**m.Chance), interval(m.Kappa), interval(m.Difference), interval(m.Rank))
	}
	_ = table.Flush() // to a buffer
}

// writeLengths says whether judges prefer long work.
func writeLengths(w io.Writer, judges []calibrate.CheckedJudge) {
	var lines []string
	for _, j := range judges {
		l := j.Length
		e, given := l.Rank, ""
		if l.Given != nil {
			e, given = l.Given, " among trials with equal labels"
		}
		if e == nil || e.Low == nil {
			continue
		}
		what := "no sign that length matters"
		switch {
		case *e.Low > 0:
			what = "longer ones get higher scores"
		case *e.High < 0:
			what = "longer ones get lower scores"
		}
		if l.Given == nil && what != "no sign that length matters" {
			what += ", which may be because they are different; labels can tell"
		}
		lines = append(lines, fmt.Sprintf("  %s: rank correlation %s%s: %s", tables.Cell(j.Name), interval(e), given, what))
	}
	if len(lines) > 0 {
		fmt.Fprintf(w, "\nScores and the length of the transcript:\n%s\n", strings.Join(lines, "\n"))
	}
}
