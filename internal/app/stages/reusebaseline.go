package stages

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/forge/gitlab"
	"github.com/org/rollout-action/internal/lib/git"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/run/job/reuse"
	"github.com/org/rollout-action/internal/run/trial/experiment"
)

// FromBaseline is the value of --reuse that stands for the job's baseline. A directory of this name
// is ./baseline.
const FromBaseline = "baseline"

// SplitReuse returns the directories among the values of --reuse, and whether the baseline is one
// of them.
func SplitReuse(values []string) (dirs []string, baseline bool) {
	dirs = slices.DeleteFunc(slices.Clone(values), func(v string) bool { return v == FromBaseline })
	return dirs, len(dirs) < len(values)
}

// RunsAll reports why every trial runs although --reuse baseline was given.
func (p *Planned) RunsAll(why string) {
	host.Linef(p.Host.Output, "note: --reuse baseline: all trials run, because %s", why)
}

// RunsAllAsUsual reports a reason that follows from how the job is run, and so would be repeated by
// each shard of each run of a workflow, whose reports say what they compare with. It is silent in
// CI.
func (p *Planned) RunsAllAsUsual(why string) {
	if !inCI(p.Host) {
		p.RunsAll(why)
	}
}

// becomesBaseline describes a run of a CI system whose results become a baseline, else it returns
// "".
func becomesBaseline(h *host.Host) string {
	switch event := h.GitHub().Event; event {
	case "push", "schedule", "workflow_dispatch":
		return "a run by " + event
	}
	if run, ok := gitlab.FromEnv(h.Getenv); ok && run.OnDefault {
		return "a pipeline of the default branch"
	}
	return ""
}

// FindBaseline looks the baseline up, for the trials and for the verdict, and returns it as a
// source of results. If it is none, the reason is reported, and every trial runs. began is the plan
// of a job that is continued, whose commit decides which baseline is found; nil: a new one begins.
func (p *Planned) FindBaseline(ctx context.Context, began *result.Plan) ([]reuse.Source, error) {
	h, opts := p.Host, p.Report
	if !opts.Compares() {
		p.RunsAllAsUsual("the job is compared with none (--baseline)")
		return nil, nil
	}
	if run := becomesBaseline(h); run != "" {
		p.RunsAllAsUsual("the results of " + run + " become a baseline, which is measured as a whole")
		return nil, nil
	}
	if h.Guard != nil && h.Guard.Commit() != "" && opts.OnDisk() {
		p.RunsAll("the baseline is a file, which a fork may have written")
		return nil, nil
	}
	plan, err := p.Record(ctx)
	if err != nil {
		return nil, err
	}
	of := plan
	if began != nil {
		of = *began
	}
	found := reporting.FinderOf(h).Find(ctx, p.Dir(), reporting.EvaluatedIn(of).Pooled(p.Job.Gate), opts)
	if over(ctx) {
		return nil, nil // the run reports the cancel
	}
	if found.Err != nil {
		return nil, found.Err
	}
	p.Found = &found
	switch base := found.Job; {
	case base == nil:
		p.RunsAllAsUsual("there is no baseline: " + host.Clean(found.Sentence))
		return nil, nil
	case base.RolloutVersion != "" && !result.JudgeAlike(base.RolloutVersion, plan.RolloutVersion):
		p.RunsAll("the baseline is of Rollout " + host.Clean(base.RolloutVersion) + ", whose rules may differ")
		return nil, nil
	}
	return p.sourceOf(found)
}

// sourceOf returns a baseline as a source of results. A job's directory has the trials' files.
func (p *Planned) sourceOf(found reporting.FoundBaseline) ([]reuse.Source, error) {
	base, label := *found.Job, reporting.ShownSource(p.Report.Baseline)
	source, known := reuse.FromJob(label, base)
	if dir := p.Report.Baseline; host.IsDir(p.Host.Path(dir)) && p.Report.OnDisk() {
		opened, err := reuse.Open(label, p.Host.Path(dir))
		if err == nil {
			source, known = opened, 1
		}
	}
	if known == 0 {
		p.RunsAll("the " + result.ResultFile + " of the baseline does not say what its trials ran: that of a job with judges does not, nor that of an earlier version")
		return nil, nil
	}
	commit := ""
	if base.Commit != nil && git.IsID(*base.Commit) {
		commit = *base.Commit
	}
	return []reuse.Source{source.AsBaseline(commit, found.URL)}, nil
}

// unaddressed returns what no digest covers.
func (p *Planned) unaddressed() []string {
	if entry, ok := p.Host.Providers.Find(p.Job.Environment.Type); ok {
		return entry.Unaddressed(p.Job.Environment.ProviderConfig)
	}
	return nil
}

// Unchanged reports whether all trials can be taken over without asking a provider.
func (p *Planned) Unchanged(ctx context.Context, sources []reuse.Source) (bool, error) {
	own := p.Own()
	if len(sources) == 0 || len(own) == 0 {
		return false, nil
	}
	found, err := reuse.Find(ctx, sources, own, reuse.Experiment{Digests: experiment.DigestsOf(p.Job, p.Inputs()), Unaddressed: p.unaddressed()})
	return err == nil && len(found.Found) == len(own), err
}

// ReportUnchanged writes the directory of a job whose trials are all taken over, and reports on it.
// It asks no provider.
func (p *Planned) ReportUnchanged(ctx context.Context, sources []reuse.Source, lock *job.Lock) (*host.Finished, error) {
	p.Warn()
	p.Rounds = nil // all attempts are there
	o, err := p.Open(ctx, nil, lock)
	if err != nil {
		return nil, err
	}
	if err = o.reuse(ctx, sources); err == nil && len(o.Todo) > 0 && !over(ctx) {
		err = fmt.Errorf("%s changed while they were taken over: resume the job", plural.Count(len(o.Todo), "result"))
	}
	if err == nil {
		o.Ended, err = job.Run(ctx, nil, job.Options{Tree: o.Tree, Earlier: o.Earlier, Emit: o.Tree.Sink, Now: p.Host.Now, Hard: p.Host.Hard, Prompt: nil})
	}
	if err := cmp.Or(err, o.Tree.Close()); err != nil {
		return nil, err
	}
	finished, err := reporting.Finish(ctx, p.Host, p.Dir(), p.Report, reporting.Ending{Ran: true, Cancelled: true, Baseline: p.Found})
	if finished != nil && p.Host.Finished != nil {
		p.Host.Finished(finished)
	}
	return finished, err
}
