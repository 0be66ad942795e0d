package library

import (
	"context"
	"fmt"
	"path"
	"slices"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/history"
)

// History returns the jobs of a directory and of files, oldest first and without duplicates.
// Shards, proofs of tasks, baselines that ran with another job and jobs without a result are left
// out, because they add nothing to the history of an agent.
func History(ctx context.Context, h *host.Host, req reporting.HistoryRequest) ([]history.Point, error) {
	if req.Limit < 0 {
		return nil, host.Usagef("-n %d: give a number of jobs, or 0 for all", req.Limit)
	}
	for _, glob := range req.Jobs {
		if _, err := path.Match(glob, ""); err != nil {
			return nil, host.Usagef("--job %s: %w (a name, in which * stands for any text)", host.Clean(glob), err)
		}
	}
	var points []history.Point
	for _, file := range req.Files {
		read, err := reporting.ReadHistory(ctx, h, file, req)
		if err != nil {
			return nil, err
		}
		points = append(points, read...)
	}
	if req.Dir != "" {
		jobs, err := identifyJobs(ctx, h, JobsRequest{Dir: req.Dir, Default: true, NoBaselines: true})
		if err != nil {
			return nil, err
		}
		work := event.Begin(ctx, "Reading results", len(jobs.List))
		defer work.End()
		found := 0
		for _, job := range jobs.List { // the newest first
			if found == req.Limit && found > 0 {
				break
			}
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			work.Step()
			job.withPoint = true
			if job.Shard != nil || !req.Wants(job.Name) || job.read(h.Paths) != nil || job.point == nil {
				continue
			}
			points = append(points, *job.point)
			found++
		}
	}
	points = slices.DeleteFunc(points, func(p history.Point) bool { return !req.Wants(p.JobName) })
	points = history.Sorted(points)
	if req.Limit > 0 {
		points = points[max(0, len(points)-req.Limit):]
	}
	return points, nil
}

// HistoryAddRequest is the request of AddToHistory.
type HistoryAddRequest struct {
	Dir    string // of the job
	To     string // the file
	Branch string // that was evaluated; "": unknown
}

// AddToHistory adds a job to a file, and reports whether it was new.
func AddToHistory(ctx context.Context, h *host.Host, req HistoryAddRequest) (added bool, err error) {
	if err := h.CheckJobDir(req.Dir); err != nil {
		return false, err
	}
	listed := ListedJob{Dir: req.Dir, withPoint: true}
	if err := listed.read(h.Paths); err != nil {
		return false, err
	}
	if slices.Contains([]JobState{JobRunning, JobKilled}, listed.State) {
		return false, host.Usagef("%s has no result yet (it is %s): add it when it is done", host.Clean(req.Dir), listed.State)
	}
	if listed.point == nil {
		return false, host.Usagef("%s: it is a shard or a proof of tasks, which says nothing about how an agent does: give a whole job", host.Clean(req.Dir))
	}
	listed.point.Branch = req.Branch
	added, err = history.Add(ctx, h.Path(req.To), *listed.point)
	if err != nil {
		return false, fmt.Errorf("add %s: %w", host.Clean(req.Dir), err)
	}
	return added, nil
}
