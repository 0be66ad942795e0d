package library

import (
	"context"
	"time"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/core/result"
)

// clockSkew is how far another machine's clock may be ahead. A job that claims to begin later is
// not considered the newest.
const clockSkew = time.Hour

// NewestJobs returns the directories of the n most recently begun jobs below JobsDir, newest first.
// A baseline that ran with another job is not counted, except as the second of two if it was the
// baseline of the first. NewestJobs returns a UsageError if there are fewer.
func NewestJobs(ctx context.Context, h *host.Host, n int) ([]string, error) {
	jobs, err := ListJobs(ctx, h, JobsRequest{Dir: host.JobsDir, Default: true, Limit: n, NoBaselines: true, Until: h.Now().Add(clockSkew)})
	if err != nil {
		return nil, err
	}
	if len(jobs.List) == 0 {
		return nil, host.Usagef("there is no job in %s yet: give the directory of a job, or run one", host.JobsDir)
	}
	if n == 2 {
		newest := jobs.List[0]
		plan := result.Plan{JobName: newest.Name, Shard: newest.Shard, Beside: newest.paired}
		if base := reporting.BaselineDir(h.Paths, newest.Dir, plan); base != "" {
			return []string{newest.Dir, base}, nil
		}
	}
	if len(jobs.List) < n {
		return nil, host.Usagef("there is only one job in %s: give the directories of two", host.JobsDir)
	}
	dirs := make([]string, n)
	for i, listed := range jobs.List {
		dirs[i] = listed.Dir
	}
	return dirs, nil
}
