package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/org/rollout-action/internal/config"
	"github.com/org/rollout-action/internal/gate"
	"github.com/org/rollout-action/internal/job/merge"
	"github.com/org/rollout-action/internal/plural"
	"github.com/org/rollout-action/internal/report"
	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/internal/ui"
	"github.com/org/rollout-action/reporters"
	"github.com/org/rollout-action/reporters/junit"
)

func (a *app) reportCommand() *cobra.Command {
	var asJSON bool
	var flags reportFlags
	cmd := &cobra.Command{
		Use:   "report JOB_DIR",
		Short: "Report on a job again, from what is on disk",
		Long: `Print the summary of a job from the results in its directory, compare it with its baseline, check its
gate, and write reports. No trial is run. It also works for jobs that were cancelled, that still run or
whose run was killed: missing trials are counted as skipped and reported. Such a job never passes.

The gate is the one in the job's config.json; flags win over it.
` + exitCodes,
		Example: `  rollout report jobs/nightly --junit junit.xml --markdown report.md
  rollout report jobs/pr --baseline jobs/main --max-broken-tasks 0 --format comment
  rollout report jobs/nightly --json | jq .pass_rate`,
		Args: oneArg("a job's directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if asJSON && flags.format != formatText {
				return usage("--json and --format %s are two things to print: give one of them", clean(flags.format))
			}
			if asJSON && !cmd.Flags().Changed("github") {
				flags.github = "off" // a program asks for numbers, maybe after a step that told GitHub of them
			}
			return a.finish(cmd.Context(), args[0], flags, ending{asJSON: asJSON})
		},
	}
	cmd.Flags().StringVar(&flags.format, "format", formatText, "what to print: text, or a report: "+strings.Join(slices.Sorted(maps.Keys(reporters.All)), ", "))
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the job's result.json, made anew from the trials', instead of a summary; nothing is left in a workflow unless --github on says so")
	flags.add(cmd)
	return cmd
}

// ending is what the command that finishes a job knows besides what is in the job's directory.
type ending struct {
	tree       *result.Tree // what is in the directory, if that is known already
	incomplete []string     // a sentence for each thing that is missing; with one the job does not pass
	notes      []string     // further sentences for people
	// cancelled: the job's own run ends here, and a cancel is its outcome.
	cancelled bool
	// ran: the command ran the job, or would have if anything had been left to run.
	ran bool
	// asJSON: the job's result is printed instead of a summary.
	asJSON bool
	// confirmations are the confirmation attempts, and unconfirmed tells that some of them were not made.
	confirmations []result.Trial
	unconfirmed   bool
	// baseline is what the job is compared with, if that was looked for already.
	baseline *foundBaseline
	// stopped: the command was cancelled before it knew what to compare with, so that its verdict says nothing.
	stopped bool
}

// readTree reads a job's directory, and warns of what cannot be read in it.
func (a *app) readTree(dir string) (result.Tree, error) {
	tree, err := result.ReadTree(a.path(dir))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return tree, usage("%w (give the directory of a job, such as jobs/nightly)", err)
	}
	for _, unreadable := range tree.Unreadable {
		a.warnf("%v", unreadable)
	}
	return tree, err
}

// finish ends run, merge and report: it reads the job's directory, compares, judges, prints, writes and delivers. The error is
// the command's outcome.
func (a *app) finish(ctx context.Context, dir string, flags reportFlags, end ending) error {
	if err := flags.check(); err != nil {
		return err
	}
	if end.tree == nil {
		end.incomplete = append(end.incomplete, merge.Missing(a.path(dir))...)
	}
	in, err := a.gather(dir, flags, &end)
	if err != nil {
		return err
	}
	w, notes := a.workflow(flags)
	in.Notes = append(in.Notes, notes...)
	if w != nil {
		in.Links = w.links()
	}
	if err := a.judge(ctx, &in, flags, &end); err != nil {
		return err
	}
	notes, err = a.deliver(ctx, w, in, flags)
	in.Notes = append(in.Notes, notes...)
	switch err = errors.Join(err, a.print(in, flags, end)); {
	case err != nil:
		return err
	case end.stopped, end.cancelled && (in.Job.Cancelled || ctx.Err() != nil && end.unconfirmed):
		return &failure{code: exitCancelled}
	case in.Plan.Shard != nil && len(in.Incomplete) == 0, in.Plan.Shard == nil && in.Passed():
		return nil
	}
	return &failure{code: exitGate}
}

// judge compares a job with its baseline, and checks its gate.
func (a *app) judge(ctx context.Context, in *report.Input, flags reportFlags, end *ending) error {
	if flags.forgets(in.Plan) && (in.Plan.Shard == nil || in.Policy.Confirm.Attempts > 0) {
		const forgotten = "the job began with a baseline, and is compared with none: give it again with --baseline, or say --baseline none"
		if end.ran {
			end.incomplete = append(end.incomplete, forgotten)
			in.Incomplete = append(in.Incomplete, forgotten)
		} else {
			in.Notes = append(in.Notes, forgotten)
		}
	}
	if in.Plan.Shard != nil {
		// The Action names a baseline always: a shard tries again what looks broken beside it (gate.confirm).
		named := flags.compares() && flags.baseline != githubPrefix
		if in.Policy.Confirm.Attempts == 0 && named || asksMore(*in) {
			in.Notes = append(in.Notes, fmt.Sprintf("this is shard %s: the gate and the baseline are for the whole job, when rollout merge has put it together", in.Plan.Shard))
		}
		return nil
	}
	found := end.baseline
	if found == nil {
		found = &foundBaseline{}
		found.job, found.sentence, found.err = a.findBaseline(ctx, in.Dir, evaluatedIn(in.Plan), flags)
	}
	if found.err != nil {
		return found.err
	}
	base := found.job
	in.Baseline = found.sentence
	if base != nil {
		diff := result.Compare(*base, in.Job)
		in.Diff = &diff
	}
	if _, note := unconfirmed(*in, end.confirmations, base); note != "" {
		note += ". To make them now: " + a.resumption(in.Dir, in.Plan, flags)
		in.Notes = append(in.Notes, note)
		end.unconfirmed = end.unconfirmed || ctx.Err() != nil
	}
	if base == nil && flags.compares() && ctx.Err() != nil {
		const stopped = "the command was cancelled before it had found the baseline"
		end.stopped = true
		end.incomplete = append(end.incomplete, stopped)
		in.Incomplete = append(in.Incomplete, stopped)
	}
	in.Verdict = in.Policy.Check(in.Job, in.Diff, a.Now())
	return nil
}

// print puts on stdout what was asked for.
func (a *app) print(in report.Input, flags reportFlags, end ending) error {
	if end.asJSON {
		return a.printJSON(in.Job)
	}
	if r, ok := reporters.All[flags.format]; ok {
		if _, is := r.(junit.Reporter); is {
			r = junit.Reporter{CaseFiles: flags.caseFiles}
		}
		return r.Write(a.Stdout, in)
	}
	a.printSummary(in, flags, end)
	return nil
}

// gather returns everything about a job that its directory tells.
func (a *app) gather(dir string, flags reportFlags, end *ending) (report.Input, error) {
	tree := result.Tree{}
	if end.tree != nil {
		tree = *end.tree
	} else {
		var err error
		if tree, err = a.readTree(dir); err != nil {
			return report.Input{}, err
		}
	}
	path := filepath.Join(dir, result.ConfigFile)
	data, err := result.ReadConfig(a.path(dir))
	job := result.Summarize(tree.Plan, tree.All())
	in := report.Input{
		Job: job, Plan: tree.Plan, Trials: tree.Trials, Groups: result.Groups(tree.Plan, tree.All()),
		Files: os.DirFS(a.path(dir)), Dir: dir, Notes: end.notes, Now: a.Now(),
		Incomplete: append(missing(job, tree), end.incomplete...),
	}
	if sentence := reused(job, tree.Trials); sentence != "" {
		in.Notes = append(slices.Clone(in.Notes), sentence)
	}
	if n := job.ConfirmationTrials; n > 0 {
		tasks := 0
		if c := tree.Plan.Confirm; c != nil {
			tasks = len(c.Tasks)
		}
		sentence := fmt.Sprintf("%s broken and had %s (gate.confirm), which %s no rate", looked(tasks), plural.Count(n, "further attempt"), map[bool]string{true: "enters", false: "enter"}[n == 1])
		if usd := job.ConfirmationCost.Amount(); usd > 0 {
			sentence += fmt.Sprintf(" and cost %s of the total", report.Dollars(usd))
		}
		in.Notes = append(slices.Clone(in.Notes), sentence)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		in.Incomplete = append(in.Incomplete, "there is no "+result.ConfigFile+", so it is not known what the job's gate asks for")
	case err != nil:
		return in, fmt.Errorf("read the job's gate: %w", err)
	}
	in.Policy, err = config.Policy(path, data, flags.gate.overrides())
	end.confirmations = tree.Confirmations
	if incomplete, _ := unconfirmed(in, tree.Confirmations, nil); incomplete != "" {
		end.unconfirmed = true
		in.Incomplete = append(in.Incomplete, incomplete)
		end.incomplete = append(end.incomplete, incomplete)
	}
	return in, err
}

// missing returns a sentence for each kind of result that a job lacks.
func missing(job result.Job, tree result.Tree) []string {
	var out []string
	if n := len(tree.Unreadable); n > 0 {
		out = append(out, fmt.Sprintf("%s cannot be read; the first: %v", plural.Count(n, "result"), tree.Unreadable[0]))
	}
	if n := job.Errors[result.Cancelled]; n > 0 {
		out = append(out, fmt.Sprintf("the job was cancelled while %s ran", plural.Count(n, "trial")))
	}
	if n := job.SkippedTrials - len(tree.Unreadable); n > 0 {
		out = append(out, fmt.Sprintf("%d of %s never ran or left no result", n, plural.Count(job.TotalTrials, "trial")))
	}
	return out
}

// printSummary shows people on stdout what the reports say.
func (a *app) printSummary(in report.Input, flags reportFlags, end ending) {
	_, err := os.Stat(filepath.Join(a.path(in.Dir), result.ResultFile))
	_, noConfig := os.Stat(filepath.Join(a.path(in.Dir), result.ConfigFile))
	resume := ""
	if noConfig == nil && !in.Plan.ProvesTasks {
		resume = a.resumption(in.Dir, in.Plan, flags)
	}
	color, width := a.stdoutStyle()
	ui.Summary(a.Stdout, ui.SummaryInput{
		Job: in.Job, Groups: in.Groups, Trials: in.Trials, Dir: in.Dir,
		Missing: err != nil && in.Job.SkippedTrials > 0, Resume: resume, Partial: len(end.incomplete) > 0 && in.Job.SkippedTrials > 0,
	}, color, width)
	verdict := ui.VerdictInput{Diff: in.Diff, Incomplete: end.incomplete, Notes: in.Notes, Missing: len(in.Incomplete) > 0}
	if flags.compares() {
		verdict.Baseline = in.Baseline
	}
	// Without a gate or a baseline the summary says all there is, unless all trials are there and the job does not pass.
	unexplained := len(in.Incomplete) == 0 && !in.Verdict.Passed(in.Policy)
	if in.Plan.Shard == nil && (in.Diff != nil || asksMore(in) || unexplained) {
		verdict.Verdict = in.Verdict
	}
	ui.Verdict(a.Stdout, verdict, color, width)
}

// asksMore reports whether the gate asks for more than that no trial fails.
func asksMore(in report.Input) bool {
	limits := in.Policy.Thresholds
	limits.MaxFailedTrials = nil
	return limits != (gate.Thresholds{}) || len(in.Policy.Groups)+len(in.Policy.Quarantine) > 0
}

// stdoutStyle returns how to print on stdout: with colours only on a terminal that wants them.
func (a *app) stdoutStyle() (color bool, width int) {
	file, ok := a.Stdout.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return false, 100
	}
	_, color, err := ui.DetectMode(file, "auto", a.getenv)
	cols, _, sizeErr := term.GetSize(int(file.Fd()))
	if sizeErr != nil || cols <= 0 {
		cols = 80
	}
	return color && err == nil, cols
}
