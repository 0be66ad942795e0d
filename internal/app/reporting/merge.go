package reporting

import (
	"context"
	"errors"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/forge/comments"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/run/job/merge"
)

// MergeRequest is the request of Merge.
type MergeRequest struct {
	Paths  []string // directories with shards, or archives
	Output string   // the merged job's directory; "": by the job's name below jobs
	Name   string   // the job's name, as merge.Options.Name; "": any
	Move   bool     // move the trials instead of linking them
	Report ReportOptions
}

// Merge combines the shards of a job, and reports on the whole. The Finished is as in Report.
func Merge(ctx context.Context, h *host.Host, req MergeRequest) (*host.Finished, error) {
	if err := req.Report.Check(); err != nil {
		return nil, err
	}
	finished, err := runMerge(ctx, h, req)
	job := JobName{Name: req.Name}
	if finished != nil {
		job = NameOf(finished.Input.Plan)
	}
	switch {
	case ctx.Err() != nil:
		unannounce(ctx, h, req.Report, job, cancelledRun)
	case err != nil:
		unannounce(ctx, h, req.Report, job, comments.NoVerdict)
	}
	return finished, err
}

// runMerge merges the parts that a checked request names.
func runMerge(ctx context.Context, h *host.Host, req MergeRequest) (*host.Finished, error) {
	defer merge.SaveMemory()()
	var base *FoundBaseline // if the rounds of the job were looked at
	rounds := func(ctx context.Context, made merge.Made) (*result.Rounds, string, error) {
		looked, found, err := look(ctx, h, req.Output, req.Report, made)
		base = found
		return looked.Rounds, looked.Note, err
	}
	brief := fileOf(req.Report.Files, func(format string) bool { f, _ := h.Formats().Find(format); return f.Page }) == ""
	merged, err := merge.Run(ctx, merge.Options{
		Paths: req.Paths, Output: req.Output, Parent: "jobs", Name: req.Name, Base: h.Dir, Move: req.Move, Rounds: rounds, Brief: brief,
	})
	if err := asUsage(err); err != nil {
		return nil, err
	}
	host.Linef(h.Output, "Merged %d of %s into %s", merged.Merged, plural.Count(merged.Shards, "shard"), host.Clean(merged.Dir))
	for _, note := range merged.Notes {
		host.Linef(h.Output, "note: %s", host.Clean(note))
	}
	end := Ending{Tree: &merged.Tree, Job: &merged.Job, Groups: merged.Groups, Incomplete: merged.Incomplete, Notes: merged.Notes, Baseline: base}
	if b := merged.Tree.Plan.Beside; b != nil && !b.Baseline {
		if err := mergeBeside(ctx, h, &req, merged, &end); err != nil {
			return nil, err
		}
	}
	return Finish(ctx, h, merged.Dir, req.Report, end)
}

// asUsage returns a refusal to merge as a wrong use.
func asUsage(err error) error {
	var refusal job.Refusal
	if errors.As(err, &refusal) {
		return host.Usagef("%w", err)
	}
	return err
}

// mergeBeside merges the shards of the baseline that ran with a merged job, and compares the job
// with it.
func mergeBeside(ctx context.Context, h *host.Host, req *MergeRequest, head merge.Result, end *Ending) error {
	output := head.Dir + AgainstSuffix(head.Tree.Plan.Beside.Commit)
	base, err := merge.Run(ctx, merge.Options{Paths: req.Paths, Output: output, Name: req.Name, Base: h.Dir, Move: req.Move, Baseline: true, Brief: true})
	var refusal job.Refusal
	if errors.As(err, &refusal) {
		end.Incomplete = append(end.Incomplete, host.Clean("the baseline that ran with this job cannot be merged: "+err.Error()))
		return nil
	}
	if err != nil {
		return err
	}
	host.Linef(h.Output, "Merged %d of %s of its baseline into %s", base.Merged, plural.Count(base.Shards, "shard"), host.Clean(base.Dir))
	for _, sentence := range base.Incomplete {
		end.Incomplete = append(end.Incomplete, "baseline: "+sentence)
	}
	if head.Tree.Plan.Beside.OnlyConfirms {
		return nil
	}
	if req.Report.Baseline == "" || req.Report.Baseline == GitHubPrefix { // which the Action always passes
		req.Report.Baseline = base.Dir
	}
	return nil
}
