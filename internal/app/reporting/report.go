// Package reporting ends a job: it reads the job's directory, finds the baseline, compares, checks
// the gate, and delivers the reports. It starts no trial.
package reporting

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/forge/gitlab"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/run/job/merge"
	"github.com/org/rollout-action/internal/run/job/resume"
)

// Report reports on a job from the files in its directory. It runs no trial. With an error, it
// returns a partial Finished, or nil.
func Report(ctx context.Context, h *host.Host, req ReportRequest) (*host.Finished, error) {
	return Finish(ctx, h, req.Dir, req.Options, Ending{Quiet: req.Quiet, ReadOnly: req.ReadOnly})
}

// Ending holds what a use case that finishes a job knows in addition to the content of the job's
// directory.
type Ending struct {
	Tree       *result.PackedTree // the directory, if it has been read
	Job        *result.Job        // the summary of Tree, if there is one
	Groups     []result.Group     // that of each agent and dataset, with Job
	Incomplete []string           // a sentence for each missing part; with one the job does not pass
	Notes      []string           // further sentences for the user
	Cancelled  bool               // the job's own run ends here, and a cancel is its outcome
	Quiet      bool               // as in ReportRequest
	ReadOnly   bool               // so is this
	Ran        bool               // the use case ran the job, or would have if any trial had been left
	Both       bool               // the use case ran the job and its baseline, and reports itself how to continue both
	// Baseline is the baseline, if it has been determined.
	Baseline *FoundBaseline
	// together: the tree was merged from shards, whose directories are not searched for anything
	// else; paired is the tree of the baseline that ran with them, or nil.
	Together bool
	Beside   *result.PackedTree
}

// finishing is a job between ending and Finished.
type finishing struct {
	Finder
	now  func() time.Time
	opts ReportOptions
	end  Ending
	in   report.Input
	// digest is that of the job's result.json before its results were read; "": there was none.
	digest string
	// paired is the baseline that ran with the job, or nil.
	paired *result.PackedTree
	// confirmations are the confirmation attempts; unconfirmed: some of them were not made.
	confirmations []result.Trial
	unconfirmed   bool
	unranked      bool // judges have not ranked all tasks
	// stopped: the use case was cancelled before it had determined the baseline, so its verdict
	// means nothing.
	stopped bool
}

// ReadTree reads a job's directory, and warns of files that cannot be read.
func ReadTree(paths host.Paths, out host.Output, dir string) (result.Tree, error) {
	tree, err := result.ReadTree(paths.Path(dir))
	return tree, read(paths, out, dir, tree.Unreadable, err)
}

// read warns of files that cannot be read, and returns the error of reading a job's directory for
// the user.
func read(paths host.Paths, out host.Output, dir string, unreadable []error, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		if wrong := paths.CheckJobDir(dir); wrong != nil {
			return wrong
		}
		return host.Usagef("%w (give the directory of a job, such as jobs/nightly)", err)
	}
	for _, wrong := range unreadable {
		host.Warnf(out, "%v", wrong)
	}
	return err
}

// Finish ends Run, Resume, Merge and Report: it reads the job's directory, compares, judges and
// delivers. With an error, it returns the partial Finished, or nil.
func Finish(ctx context.Context, h *host.Host, dir string, opts ReportOptions, end Ending) (*host.Finished, error) {
	if err := opts.Check(); err != nil {
		return nil, err
	}
	if end.Tree == nil {
		end.Incomplete = append(end.Incomplete, merge.Missing(h.Path(dir))...)
	}
	paired := end.Beside
	if plan, err := result.ReadPlanHead(h.Path(dir)); err == nil && !end.Together {
		if paired, err = end.findPaired(h, dir, plan, &opts); err != nil {
			return nil, err
		}
	}
	f := &finishing{Finder: FinderOf(h), now: h.Now, opts: opts, end: end, paired: paired}
	f.digest, _ = result.DigestOfResult(h.Path(dir)) // without it there is no result to keep a verdict with
	if err := f.gather(ctx, dir); err != nil {
		return nil, err
	}
	if end.Quiet && opts.GitHub == "" {
		opts.GitHub = "off" // not in f.opts: printed commands only have flags that the user gave
	}
	w, notes := OpenWorkflow(h, opts.GitHub)
	f.in.Notes = append(f.in.Notes, notes...)
	if w != nil {
		f.in.Links = w.links(f.in.Job.Commit)
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
func (f *finishing) finished(ctx context.Context) *host.Finished {
	in := f.in
	_, err := os.Stat(filepath.Join(f.Path(in.Dir), result.ResultFile))
	out := &host.Finished{
		Input: in, Incomplete: f.end.Incomplete, Compared: f.opts.Compares(), NoResult: err != nil, Outcome: f.outcome(ctx),
		Running: err != nil && !f.end.Ran && job.Running(f.Path(in.Dir)),
	}
	if _, err := os.Stat(filepath.Join(f.Path(in.Dir), result.ConfigFile)); err == nil && !in.Plan.ProvesTasks && in.Plan.Reverifies == "" {
		out.Resume = Resumption(f.Paths, in.Dir, in.Plan, f.opts)
	}
	// Without a gate or a baseline the numbers say everything, unless all trials are there and the
	// job does not pass.
	unexplained := len(in.Incomplete) == 0 && !in.Verdict.Satisfied(in.Policy)
	out.Judged = !Unjudged(in.Plan) && (in.Diff != nil || asksMore(in) || unexplained)
	return out
}

// Unjudged reports whether there is no verdict on a job, because it is a part of one.
func Unjudged(plan result.Plan) bool { return plan.Shard != nil || plan.OnlyConfirms() }

func (f *finishing) outcome(ctx context.Context) host.Outcome {
	in := f.in
	switch {
	case f.stopped, f.end.Cancelled && (in.Job.Cancelled || ctx.Err() != nil && (f.unconfirmed || f.unranked)):
		return host.Stopped
	case Unjudged(in.Plan) && len(in.Incomplete) == 0, !Unjudged(in.Plan) && in.Passed():
		return host.Passed
	}
	return host.Failed
}

// note adds those sentences for the user that are not empty.
func (f *finishing) note(sentences ...string) {
	f.in.Notes = append(f.in.Notes, slices.DeleteFunc(sentences, func(s string) bool { return s == "" })...)
}

// missing records that a part is missing that the numbers do not show.
func (f *finishing) missing(sentence string) {
	f.end.Incomplete = append(f.end.Incomplete, sentence)
	f.in.Incomplete = append(f.in.Incomplete, sentence)
}

// takeVerdict takes over the stored verdict of the job, and reports whether there is one.
func (f *finishing) takeVerdict() bool {
	in := &f.in
	v, note := ReadVerdict(f.Paths, in.Dir)
	if v == nil {
		f.note(note)
		return false
	}
	in.Verdict, in.Stored = v.Gate, v.Comparison
	for _, sentence := range v.Incomplete { // known only to the command that judged
		if !slices.Contains(in.Incomplete, sentence) {
			in.Incomplete = append(in.Incomplete, sentence)
		}
	}
	if v.Baseline != "" {
		f.note(fmt.Sprintf("the verdict is that of %s, against the baseline: %s", v.JudgedAt.UTC().Format("2006-01-02 15:04 UTC"), host.Clean(v.Baseline)))
	}
	return true
}

// judge compares the job with its baseline, and checks its gate.
func (f *finishing) judge(ctx context.Context) error {
	in := &f.in
	if f.end.ReadOnly && f.opts.Baseline == "" && f.takeVerdict() {
		return nil
	}
	if f.opts.forgets(in.Plan) && (in.Plan.Shard == nil || in.Policy.Confirm.Attempts > 0) {
		const forgotten = "the job began with a baseline, and is compared with none: give it again with --baseline, or say --baseline none"
		if f.end.Ran {
			f.missing(forgotten)
		} else {
			f.note(forgotten)
		}
	}
	if f.isPart() {
		return nil
	}
	found := f.end.Baseline
	if found == nil {
		found = &FoundBaseline{}
		found.Job, found.Sentence, found.Err = f.Baseline(ctx, in.Dir, f.evaluated(), f.opts)
	}
	if found.Err != nil {
		return found.Err
	}
	base := found.Job
	in.Baseline = found.Sentence
	if v, _ := ReadVerdict(f.Paths, in.Dir); base == nil && f.opts.Baseline == "" && v != nil {
		in.Stored = v.Comparison
	}
	if base != nil {
		if n, oneJob := Shared(*base, in.Job); oneJob {
			f.note(fmt.Sprintf("the baseline is a copy or a shard of this job: %s the same trials, which show no difference by construction", plural.Count(n, "result")+" "+plural.Are(n)))
		}
	}
	base = f.compare(base)
	if _, note := unconfirmed(*in, f.confirmations, f.paired, base); note != "" {
		command := Resumption(f.Paths, in.Dir, in.Plan, f.opts)
		if f.paired != nil {
			command = PairResumption(f.Paths, in.Dir, in.Plan, f.opts)
		}
		note += ". To make them now: " + command
		f.note(note)
		f.unconfirmed = f.unconfirmed || ctx.Err() != nil
	}
	if base == nil && f.opts.Compares() && ctx.Err() != nil {
		f.stopped = true
		f.missing("the command was cancelled before it had found the baseline")
	}
	in.Verdict = in.Policy.Check(in.Job, in.Diff, f.now())
	if base != nil {
		f.note(OtherRules("the baseline was run with", base.RolloutVersion, "and this job with", in.Job.RolloutVersion))
	}
	f.note(againstCommand(f.Paths, *in, base, f.opts.Ran))
	if in.Passed() && ungated(*in) {
		f.note("no gate: exit code 0 says only that the trials ran, not how they scored. gate.min_pass_rate in the job file, or --min-pass-rate, changes that")
	}
	return nil
}

// isPart reports whether the directory has only a part of a job, which has no verdict. It notes
// where the verdict is.
func (f *finishing) isPart() bool {
	in := &f.in
	if in.Plan.OnlyConfirms() {
		f.note("this directory has only the further attempts of a baseline: the verdict is in the job " + host.Clean(in.Plan.Beside.JobName))
		return true
	}
	if in.Plan.Shard != nil {
		// The Action always names a baseline: a shard uses it to retry what looks broken
		// (gate.confirm).
		f.verify()
		named := f.opts.Compares() && !strings.HasPrefix(f.opts.Baseline, GitHubPrefix)
		if in.Policy.Confirm.Attempts == 0 && named || asksMore(*in) {
			f.note(fmt.Sprintf("this is shard %s: the gate and the baseline are for the whole job, when rollout merge has put it together", in.Plan.Shard))
		}
		return true
	}
	return false
}

// evaluated returns the commit of the job and the number of runs to compare it with. A baseline
// that ran with the job is one run, whatever the gate asks for.
func (f *finishing) evaluated() Evaluated {
	of := EvaluatedIn(f.in.Plan)
	if f.paired != nil {
		if f.in.Policy.Baseline.Pool > 1 {
			f.in.Notes = append(f.in.Notes, "gate.baseline.pool has no effect: the job is compared with the baseline that ran with it")
		}
		return of
	}
	return of.Pooled(f.in.Policy)
}

// verify compares the files of a shard that was not run here with its checksums.
func (f *finishing) verify() {
	if f.end.Ran || f.end.Tree != nil {
		return
	}
	changed, unverified := merge.Verify(f.Path(f.in.Dir), f.in.Dir)
	if changed != "" {
		f.missing(changed)
	}
	f.note(unverified)
}

// compare compares the job with its baseline, and returns the baseline with its confirming
// attempts. base may be nil.
func (f *finishing) compare(base *result.Job) *result.Job {
	if base == nil {
		return nil
	}
	in := &f.in
	if f.paired != nil && f.paired.Plan.Beside.OnlyConfirms {
		with := *base
		made, _ := f.paired.Summarize()
		with.Beside, with.Confirmations = made.Beside, made.Confirmations
		base = &with
	}
	diff := result.Compare(*base, in.Job)
	in.Diff = &diff
	if dir := f.opts.Baseline; dir != "" && host.IsDir(f.Path(dir)) { // not a file, a URL or a branch
		in.BaseFiles, in.BaseDir = os.DirFS(f.Path(dir)), dir
	}
	f.note(report.NotSelected(diff))
	return base
}

// ungated reports whether no gate is set: the job passes whatever its trials score.
func ungated(in report.Input) bool {
	failed := in.Policy.MaxFailedTrials
	return !asksMore(in) && !in.Plan.ProvesTasks && (failed == nil || *failed == 0)
}

// OtherRules returns a sentence if two versions of Rollout may judge trials by different rules,
// else "".
func OtherRules(first, a, second, b string) string {
	if result.JudgeAlike(a, b) {
		return ""
	}
	return fmt.Sprintf("%s Rollout %s %s %s: what counts as an error, a timeout or a reward may differ between them (CHANGELOG.md)", first, host.Clean(a), second, host.Clean(b))
}

// gather reads all data about the job from its directory.
func (f *finishing) gather(ctx context.Context, dir string) error {
	work := event.Begin(ctx, "Reading results", 0)
	defer work.End()
	tree := result.PackedTree{}
	if f.end.Tree != nil {
		tree = *f.end.Tree
	} else {
		packed, err := result.ReadPackedTree(f.Path(dir))
		if err := read(f.Paths, f.out, dir, packed.Unreadable, err); err != nil {
			return err
		}
		tree = packed
	}
	path := filepath.Join(dir, result.ConfigFile)
	data, err := result.ReadConfig(f.Path(dir))
	var job result.Job
	groups := f.end.Groups
	if f.end.Job != nil {
		job = *f.end.Job
	} else {
		job, groups = tree.Summarize()
	}
	f.confirmations = tree.Confirmations
	f.in = report.Input{
		Job: job, Plan: tree.Plan, Trials: tree.Trials, Groups: groups,
		Files: os.DirFS(f.Path(dir)), Dir: dir, Notes: slices.Clone(f.end.Notes), Now: f.now(),
		Incomplete: append(missing(job, tree.Unreadable), f.end.Incomplete...),
	}
	in := &f.in
	for _, sentence := range unranked(tree.Plan, tree.Trials) {
		f.unranked = true
		f.missing(sentence)
	}
	f.note(reverified(tree.Plan, tree.Trials), report.LeftOut(job), reused(job, tree.Trials))
	f.note(stopSentences(job)...)
	f.note(confirmed(job, tree.Plan))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		in.Incomplete = append(in.Incomplete, "there is no "+result.ConfigFile+", so it is not known what the job's gate asks for")
	case err != nil:
		return fmt.Errorf("read the job's gate: %w", err)
	}
	in.Policy, err = config.Policy(path, data, f.opts.Gate)
	f.note(otherLooks(job, in.Policy, path, data))
	var unpaired []string
	in.Versus, unpaired = CompareAgents(job, tree.Plan, data, in.Policy.Confidence)
	f.note(unpaired...)
	if incomplete, _ := unconfirmed(*in, tree.Confirmations, f.paired, nil); incomplete != "" {
		f.unconfirmed = true
		f.missing(incomplete)
		if in.Plan.Beside != nil && !f.end.Both { // rollout resume makes none of them
			f.note("To make the attempts that are missing: " + PairResumption(f.Paths, in.Dir, in.Plan, f.opts))
		}
	}
	return err
}

// otherLooks returns a sentence about a job that ended early by other limits than those of a
// report; "" if it did not.
func otherLooks(job result.Job, policy gate.Policy, path string, stored []byte) string {
	if job.Rounds == nil || len(job.Rounds.NotNeeded) == 0 {
		return ""
	}
	own, err := config.Policy(path, stored, nil)
	if err != nil {
		return "" // another error is reported already
	}
	changes, err := resume.OtherGate(own, policy)
	if err != nil || changes == "" {
		return ""
	}
	return "the job ended early by other limits than those of this report (" + host.Clean(changes) + "): which attempts it made depends on its own, so a test of others does not keep its chance of a false alarm, and may show less"
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
	sentence := fmt.Sprintf("%s and had %s (gate.confirm), which %s no rate", Looks("looked", "looked", tasks-fixed, fixed), plural.Count(n, "further attempt"), map[bool]string{true: "enters", false: "enter"}[n == 1])
	if cost := job.ConfirmationCost; cost.Amount() > 0 {
		sentence += fmt.Sprintf(" and cost %s of the total", report.Cost(cost))
	}
	return sentence
}

// missing returns a sentence for each kind of result that a job lacks.
func missing(job result.Job, unreadable []error) []string {
	var out []string
	if n := len(unreadable); n > 0 {
		out = append(out, fmt.Sprintf("%s cannot be read; the first: %v", plural.Count(n, "result"), unreadable[0]))
	}
	timeUp := 0
	for _, s := range job.Stopped {
		timeUp += s.Cancelled
	}
	if timeUp = min(timeUp, job.Errors[result.Cancelled]); timeUp > 0 {
		out = append(out, fmt.Sprintf("%s %s cancelled when the job stopped", plural.Count(timeUp, "trial"), plural.Were(timeUp)))
	}
	if n := job.Errors[result.Cancelled] - timeUp; n > 0 {
		out = append(out, fmt.Sprintf("the job was cancelled while %s ran", plural.Count(n, "trial")))
	}
	if n := job.SkippedTrials - len(unreadable); n > 0 {
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
