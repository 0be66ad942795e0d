package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/forge/gitlab"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/run/job/merge"
)

// Finished is the last stage of a job: the content of its directory, the baseline and the verdict.
type Finished struct {
	Input   report.Input
	Outcome Outcome
	// Incomplete are the sentences about missing results that a summary cannot derive from the
	// numbers of Input.
	Incomplete []string
	// Compared: a baseline was asked for.
	Compared bool
	// Judged: the verdict adds something to the numbers.
	Judged bool
	// NoResult: the job's result.json is missing, because the run was killed, could not write it,
	// or still goes on: Running.
	NoResult, Running bool
	// Resume is the command that runs the rest; "" if there is none.
	Resume string
	// ResumeWith is the command that resumes a job that was just cancelled, with the flags of this
	// run; "": it was not cancelled.
	ResumeWith string
}

// Outcome is the result of a use case that judges a job.
type Outcome int

// Outcomes of a job.
const (
	Passed  Outcome = iota
	Failed          // the gate failed, or results are missing
	Stopped         // it was cancelled, so nothing was judged
)

// Report reports on a job from the files in its directory. It runs no trial. With an error, the
// Finished is partial, or nil.
func Report(ctx context.Context, h *Host, req ReportRequest) (*Finished, error) {
	return finish(ctx, h, req.Dir, req.Options, ending{quiet: req.Quiet, readOnly: req.ReadOnly})
}

// ending holds what a use case that finishes a job knows in addition to the content of the job's
// directory.
type ending struct {
	tree       *result.Tree // the directory, if it has been read
	incomplete []string     // a sentence for each missing part; with one the job does not pass
	notes      []string     // further sentences for the user
	cancelled  bool         // the job's own run ends here, and a cancel is its outcome
	quiet      bool         // as in ReportRequest
	readOnly   bool         // so is this
	ran        bool         // the use case ran the job, or would have if any trial had been left
	both       bool         // the use case ran the job and its baseline, and reports itself how to continue both
	// baseline is the baseline, if it has been determined.
	baseline *foundBaseline
	// together: the tree was merged from shards, whose directories are not searched for anything
	// else; beside is the tree of the baseline that ran with them, or nil.
	together bool
	beside   *result.Tree
}

// finishing is a job between ending and Finished.
type finishing struct {
	finder
	now  func() time.Time
	opts ReportOptions
	end  ending
	in   report.Input
	// digest is that of the job's result.json before its results were read; "": there was none.
	digest string
	// beside is the baseline that ran with the job, or nil.
	beside *result.Tree
	// confirmations are the confirmation attempts; unconfirmed: some of them were not made.
	confirmations []result.Trial
	unconfirmed   bool
	unranked      bool // judges have not ranked all tasks
	// stopped: the use case was cancelled before it had determined the baseline, so its verdict
	// means nothing.
	stopped bool
}

// readTree reads a job's directory, and warns of files that cannot be read.
func readTree(paths Paths, out Output, dir string) (result.Tree, error) {
	tree, err := result.ReadTree(paths.Path(dir))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		if wrong := paths.checkJobDir(dir); wrong != nil {
			return tree, wrong
		}
		return tree, usage("%w (give the directory of a job, such as jobs/nightly)", err)
	}
	for _, unreadable := range tree.Unreadable {
		warnf(out, "%v", unreadable)
	}
	return tree, err
}

// finish ends Run, Resume, Merge and Report: it reads the job's directory, compares, judges and
// delivers. With an error, it returns the partial Finished, or nil.
func finish(ctx context.Context, h *Host, dir string, opts ReportOptions, end ending) (*Finished, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	if end.tree == nil {
		end.incomplete = append(end.incomplete, merge.Missing(h.Path(dir))...)
	}
	beside := end.beside
	if plan, err := result.ReadPlanHead(h.Path(dir)); err == nil && !end.together {
		if beside, err = end.findBeside(h, dir, plan, &opts); err != nil {
			return nil, err
		}
	}
	f := &finishing{finder: h.finder(), now: h.Now, opts: opts, end: end, beside: beside}
	f.digest, _ = result.DigestOfResult(h.Path(dir)) // without it there is no result to keep a verdict with
	if err := f.gather(ctx, dir); err != nil {
		return nil, err
	}
	if end.quiet && opts.GitHub == "" {
		opts.GitHub = "off" // not in f.opts: printed commands only have flags that the user gave
	}
	w, notes := openWorkflow(h, opts.GitHub)
	f.in.Notes = append(f.in.Notes, notes...)
	if w != nil {
		f.in.Links = w.links()
	} else if run, ok := gitlab.FromEnv(h.Getenv); ok && opts.GitHub != "off" {
		f.in.Links = gitlabLinks(run)
	}
	if err := f.judge(ctx); err != nil {
		return nil, err
	}
	f.storeVerdict(ctx, h.Build)
	f.addHistory(ctx, h)
	notes, err := deliver(ctx, h, w, f.in, opts)
	f.in.Notes = append(f.in.Notes, notes...)
	return f.finished(ctx), err
}

// finished returns the exported form.
func (f *finishing) finished(ctx context.Context) *Finished {
	in := f.in
	_, err := os.Stat(filepath.Join(f.Path(in.Dir), result.ResultFile))
	out := &Finished{
		Input: in, Incomplete: f.end.incomplete, Compared: f.opts.compares(), NoResult: err != nil, Outcome: f.outcome(ctx),
		Running: err != nil && !f.end.ran && job.Running(f.Path(in.Dir)),
	}
	if _, err := os.Stat(filepath.Join(f.Path(in.Dir), result.ConfigFile)); err == nil && !in.Plan.ProvesTasks && in.Plan.Reverifies == "" {
		out.Resume = resumption(f.Paths, in.Dir, in.Plan, f.opts)
	}
	// Without a gate or a baseline the numbers say everything, unless all trials are there and the
	// job does not pass.
	unexplained := len(in.Incomplete) == 0 && !in.Verdict.Passed(in.Policy)
	out.Judged = !unjudged(in.Plan) && (in.Diff != nil || asksMore(in) || unexplained)
	return out
}

// unjudged reports whether there is no verdict on a job, because it is a part of one.
func unjudged(plan result.Plan) bool { return plan.Shard != nil || plan.OnlyConfirms() }

func (f *finishing) outcome(ctx context.Context) Outcome {
	in := f.in
	switch {
	case f.stopped, f.end.cancelled && (in.Job.Cancelled || ctx.Err() != nil && (f.unconfirmed || f.unranked)):
		return Stopped
	case unjudged(in.Plan) && len(in.Incomplete) == 0, !unjudged(in.Plan) && in.Passed():
		return Passed
	}
	return Failed
}

// missing records that a part is missing that the numbers do not show.
func (f *finishing) missing(sentence string) {
	f.end.incomplete = append(f.end.incomplete, sentence)
	f.in.Incomplete = append(f.in.Incomplete, sentence)
}

// takeVerdict takes over the stored verdict of the job, and reports whether there is one.
func (f *finishing) takeVerdict() bool {
	in := &f.in
	v, note := readVerdict(f.Paths, in.Dir)
	if v == nil {
		if note != "" {
			in.Notes = append(in.Notes, note)
		}
		return false
	}
	in.Verdict, in.Stored = v.Gate, v.Comparison
	for _, sentence := range v.Incomplete { // known only to the command that judged
		if !slices.Contains(in.Incomplete, sentence) {
			in.Incomplete = append(in.Incomplete, sentence)
		}
	}
	if v.Baseline != "" {
		in.Notes = append(in.Notes, fmt.Sprintf("the verdict is that of %s, against the baseline: %s", v.JudgedAt.UTC().Format("2006-01-02 15:04 UTC"), clean(v.Baseline)))
	}
	return true
}

// judge compares the job with its baseline, and checks its gate.
func (f *finishing) judge(ctx context.Context) error {
	in := &f.in
	if f.end.readOnly && f.opts.Baseline == "" && f.takeVerdict() {
		return nil
	}
	if f.opts.forgets(in.Plan) && (in.Plan.Shard == nil || in.Policy.Confirm.Attempts > 0) {
		const forgotten = "the job began with a baseline, and is compared with none: give it again with --baseline, or say --baseline none"
		if f.end.ran {
			f.missing(forgotten)
		} else {
			in.Notes = append(in.Notes, forgotten)
		}
	}
	if in.Plan.OnlyConfirms() {
		in.Notes = append(in.Notes, "these are the further attempts of a baseline: the verdict is that of the job "+clean(in.Plan.Beside.JobName)+" beside it")
		return nil
	}
	if in.Plan.Shard != nil {
		// The Action always names a baseline: a shard uses it to retry what looks broken
		// (gate.confirm).
		named := f.opts.compares() && f.opts.Baseline != GitHubPrefix
		if in.Policy.Confirm.Attempts == 0 && named || asksMore(*in) {
			in.Notes = append(in.Notes, fmt.Sprintf("this is shard %s: the gate and the baseline are for the whole job, when rollout merge has put it together", in.Plan.Shard))
		}
		return nil
	}
	found := f.end.baseline
	if found == nil {
		found = &foundBaseline{}
		found.job, found.sentence, found.err = f.baseline(ctx, in.Dir, evaluatedIn(in.Plan), f.opts)
	}
	if found.err != nil {
		return found.err
	}
	base := found.job
	in.Baseline = found.sentence
	if v, _ := readVerdict(f.Paths, in.Dir); base == nil && f.opts.Baseline == "" && v != nil {
		in.Stored = v.Comparison
	}
	if base != nil && f.beside != nil && f.beside.Plan.Beside.OnlyConfirms {
		with, made := *base, result.Summarize(f.beside.Plan, f.beside.All())
		with.Beside, with.Confirmations = made.Beside, made.Confirmations
		base = &with
	}
	if base != nil {
		diff := result.Compare(*base, in.Job)
		in.Diff = &diff
		if dir := f.opts.Baseline; dir != "" && isDir(f.Path(dir)) { // not a file, a URL or a branch
			in.BaseFiles, in.BaseDir = os.DirFS(f.Path(dir)), dir
		}
	}
	if _, note := unconfirmed(*in, f.confirmations, f.beside, base); note != "" {
		command := resumption(f.Paths, in.Dir, in.Plan, f.opts)
		if f.beside != nil {
			command = besideResumption(in.Plan, f.opts)
		}
		note += ". To make them now: " + command
		in.Notes = append(in.Notes, note)
		f.unconfirmed = f.unconfirmed || ctx.Err() != nil
	}
	if base == nil && f.opts.compares() && ctx.Err() != nil {
		f.stopped = true
		f.missing("the command was cancelled before it had found the baseline")
	}
	in.Verdict = in.Policy.Check(in.Job, in.Diff, f.now())
	if base != nil {
		if note := otherRules("the baseline was run with", base.RolloutVersion, "and this job with", in.Job.RolloutVersion); note != "" {
			in.Notes = append(in.Notes, note)
		}
	}
	if note := besideNote(*in, base); note != "" {
		in.Notes = append(in.Notes, note)
	}
	if in.Passed() && ungated(*in) {
		in.Notes = append(in.Notes, "no gate: exit code 0 says only that the trials ran, not how they scored. gate.min_pass_rate in the job file, or --min-pass-rate, changes that")
	}
	return nil
}

// ungated reports whether no gate is set: the job passes whatever its trials score.
func ungated(in report.Input) bool {
	failed := in.Policy.MaxFailedTrials
	return !asksMore(in) && !in.Plan.ProvesTasks && (failed == nil || *failed == 0)
}

// otherRules returns a sentence if two versions of Rollout may judge trials by different rules,
// else "".
func otherRules(first, a, second, b string) string {
	if result.JudgeAlike(a, b) {
		return ""
	}
	return fmt.Sprintf("%s Rollout %s %s %s: what counts as an error, a timeout or a reward may differ between them (CHANGELOG.md)", first, clean(a), second, clean(b))
}

// gather reads all data about the job from its directory.
func (f *finishing) gather(ctx context.Context, dir string) error {
	work := event.Begin(ctx, "Reading results", 0)
	defer work.End()
	tree := result.Tree{}
	if f.end.tree != nil {
		tree = *f.end.tree
	} else {
		var err error
		if tree, err = readTree(f.Paths, f.out, dir); err != nil {
			return err
		}
	}
	path := filepath.Join(dir, result.ConfigFile)
	data, err := result.ReadConfig(f.Path(dir))
	job := result.Summarize(tree.Plan, tree.All())
	f.confirmations = tree.Confirmations
	f.in = report.Input{
		Job: job, Plan: tree.Plan, Trials: tree.Trials, Groups: result.Groups(tree.Plan, tree.All()),
		Files: os.DirFS(f.Path(dir)), Dir: dir, Notes: slices.Clone(f.end.notes), Now: f.now(),
		Incomplete: append(missing(job, tree), f.end.incomplete...),
	}
	in := &f.in
	for _, sentence := range unranked(tree.Plan, tree.Trials) {
		f.unranked = true
		f.missing(sentence)
	}
	if sentence := reverified(tree.Plan, tree.Trials); sentence != "" {
		in.Notes = append(in.Notes, sentence)
	}
	if sentence := reused(job, tree.Trials); sentence != "" {
		in.Notes = append(in.Notes, sentence)
	}
	in.Notes = append(in.Notes, stopSentences(job)...)
	if sentence := confirmed(job, tree.Plan); sentence != "" {
		in.Notes = append(in.Notes, sentence)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		in.Incomplete = append(in.Incomplete, "there is no "+result.ConfigFile+", so it is not known what the job's gate asks for")
	case err != nil:
		return fmt.Errorf("read the job's gate: %w", err)
	}
	in.Policy, err = config.Policy(path, data, f.opts.Gate)
	if incomplete, _ := unconfirmed(*in, tree.Confirmations, f.beside, nil); incomplete != "" {
		f.unconfirmed = true
		f.missing(incomplete)
		if in.Plan.Beside != nil && !f.end.both { // rollout resume makes none of them
			in.Notes = append(in.Notes, "To make the attempts that are missing: "+besideResumption(in.Plan, f.opts))
		}
	}
	return err
}

// confirmed returns a sentence about the confirmation attempts of a job; "" if there are none.
func confirmed(job result.Job, plan result.Plan) string {
	n := job.ConfirmationTrials
	if n == 0 {
		return ""
	}
	tasks, fixed := 0, 0
	if plan.Confirm != nil {
		tasks, fixed = len(plan.Confirm.Tasks), len(plan.Confirm.Fixed)
	}
	sentence := fmt.Sprintf("%s and had %s (gate.confirm), which %s no rate", looks("looked", "looked", tasks-fixed, fixed), plural.Count(n, "further attempt"), map[bool]string{true: "enters", false: "enter"}[n == 1])
	if cost := job.ConfirmationCost; cost.Amount() > 0 {
		sentence += fmt.Sprintf(" and cost %s of the total", report.Cost(cost))
	}
	return sentence
}

// missing returns a sentence for each kind of result that a job lacks.
func missing(job result.Job, tree result.Tree) []string {
	var out []string
	if n := len(tree.Unreadable); n > 0 {
		out = append(out, fmt.Sprintf("%s cannot be read; the first: %v", plural.Count(n, "result"), tree.Unreadable[0]))
	}
	timeUp := 0
	for _, s := range job.Stopped {
		timeUp += s.Cancelled
	}
	if timeUp = min(timeUp, job.Errors[result.Cancelled]); timeUp > 0 {
		out = append(out, fmt.Sprintf("%s %s cancelled when the job stopped", plural.Count(timeUp, "trial"), was(timeUp)))
	}
	if n := job.Errors[result.Cancelled] - timeUp; n > 0 {
		out = append(out, fmt.Sprintf("the job was cancelled while %s ran", plural.Count(n, "trial")))
	}
	if n := job.SkippedTrials - len(tree.Unreadable); n > 0 {
		out = append(out, fmt.Sprintf("%d of %s never ran or left no result", n, plural.Count(job.TotalTrials, "trial")))
	}
	return out
}

// asksMore reports whether the gate requires more than that no trial fails.
func asksMore(in report.Input) bool {
	limits := in.Policy.Thresholds
	limits.MaxFailedTrials = nil
	return !limits.None() || len(in.Policy.Groups)+len(in.Policy.Quarantine) > 0
}
