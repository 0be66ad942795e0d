package app

import (
	"context"
	"errors"

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
func Merge(ctx context.Context, h *Host, req MergeRequest) (*Finished, error) {
	if err := req.Report.check(); err != nil {
		return nil, err
	}
	finished, err := runMerge(ctx, h, req)
	job := jobName{Name: req.Name}
	if finished != nil {
		job = nameOf(finished.Input.Plan)
	}
	switch {
	case ctx.Err() != nil:
		h.unannounce(ctx, req.Report, job, cancelledRun)
	case err != nil:
		h.unannounce(ctx, req.Report, job, comments.NoVerdict)
	}
	return finished, err
}

// runMerge merges the parts that a checked request names.
func runMerge(ctx context.Context, h *Host, req MergeRequest) (*Finished, error) {
	defer merge.SaveMemory()()
	merged, err := merge.Run(ctx, merge.Options{Paths: req.Paths, Output: req.Output, Parent: "jobs", Name: req.Name, Base: h.Dir, Move: req.Move})
	var refusal job.Refusal
	if errors.As(err, &refusal) {
		return nil, usage("%w", err)
	}
	if err != nil {
		return nil, err
	}
	linef(h.Output, "Merged %d of %s into %s", merged.Merged, plural.Count(merged.Shards, "shard"), clean(merged.Dir))
	for _, note := range merged.Notes {
		linef(h.Output, "note: %s", clean(note))
	}
	end := ending{tree: &merged.Tree, incomplete: merged.Incomplete, notes: merged.Notes}
	if b := merged.Tree.Plan.Beside; b != nil && !b.Baseline {
		if err := mergeBeside(ctx, h, &req, merged, &end); err != nil {
			return nil, err
		}
	}
	return finish(ctx, h, merged.Dir, req.Report, end)
}

// mergeBeside merges the shards of the baseline that ran with a merged job, and compares the job
// with it.
func mergeBeside(ctx context.Context, h *Host, req *MergeRequest, head merge.Result, end *ending) error {
	output := head.Dir + againstSuffix(head.Tree.Plan.Beside.Commit)
	base, err := merge.Run(ctx, merge.Options{Paths: req.Paths, Output: output, Name: req.Name, Base: h.Dir, Move: req.Move, Baseline: true})
	var refusal job.Refusal
	if errors.As(err, &refusal) {
		end.incomplete = append(end.incomplete, clean("the baseline that ran beside this job cannot be merged: "+err.Error()))
		return nil
	}
	if err != nil {
		return err
	}
	linef(h.Output, "Merged %d of %s of its baseline into %s", base.Merged, plural.Count(base.Shards, "shard"), clean(base.Dir))
	for _, sentence := range base.Incomplete {
		end.incomplete = append(end.incomplete, "baseline: "+sentence)
	}
	if head.Tree.Plan.Beside.OnlyConfirms {
		return nil
	}
	if req.Report.Baseline == "" || req.Report.Baseline == GitHubPrefix { // which the Action always passes
		req.Report.Baseline = base.Dir
	}
	return nil
}
