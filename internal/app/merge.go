package app

import (
	"context"
	"errors"

	"github.com/org/rollout-action/internal/job"
	"github.com/org/rollout-action/internal/job/merge"
	"github.com/org/rollout-action/internal/plural"
)

// MergeRequest is what Merge takes.
type MergeRequest struct {
	Paths  []string // directories with shards, or archives
	Output string   // the merged job's directory; "": by the job's name below jobs
	Move   bool     // move the trials instead of linking them
	Report ReportOptions
}

// Merge puts the shards of a job together, and reports on the whole. The Finished is as in Report.
func Merge(ctx context.Context, h *Host, req MergeRequest) (*Finished, error) {
	if err := req.Report.check(); err != nil {
		return nil, err
	}
	defer merge.SaveMemory()()
	merged, err := merge.Run(ctx, merge.Options{Paths: req.Paths, Output: req.Output, Parent: "jobs", Base: h.Dir, Move: req.Move})
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
	return finish(ctx, h, merged.Dir, req.Report, ending{tree: &merged.Tree, incomplete: merged.Incomplete, notes: merged.Notes})
}
