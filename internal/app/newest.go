package app

import (
	"context"
	"path/filepath"
	"time"

	"github.com/org/rollout-action/internal/core/result"
)

// clockSkew is how far another machine's clock may be ahead. A job that claims to begin later is
// not considered the newest.
const clockSkew = time.Hour

// JobsDir is the default directory of jobs, relative to the current one.
const JobsDir = "jobs"

// NamedJob returns the directory of the job that an argument names: the argument itself if it is a
// file or a job's directory, else the directory of that name below JobsDir if it exists, else the
// argument. So a job may have the name of its dataset's directory.
func (p Paths) NamedJob(arg string) string {
	if arg == "" || !filepath.IsLocal(arg) || isFile(p.Path(arg)) || p.hasJob(arg) {
		return arg
	}
	if below := filepath.Join(JobsDir, arg); isDir(p.Path(below)) {
		return below
	}
	return arg
}

// hasJob reports whether a directory has the plan or the results of a job.
func (p Paths) hasJob(dir string) bool {
	return IsJobDir(p, dir) || isFile(filepath.Join(p.Path(dir), result.ResultFile))
}

// NewestJobs returns the directories of the n most recently begun jobs below JobsDir, newest first.
// A baseline that ran with another job is not counted, except as the second of two if it was the
// baseline of the first. NewestJobs returns a UsageError if there are fewer.
func NewestJobs(ctx context.Context, h *Host, n int) ([]string, error) {
	jobs, err := ListJobs(ctx, h, JobsRequest{Dir: JobsDir, Default: true, Limit: n, NoBaselines: true, Until: h.Now().Add(clockSkew)})
	if err != nil {
		return nil, err
	}
	if len(jobs.List) == 0 {
		return nil, usage("there is no job in %s yet: give the directory of a job, or run one", JobsDir)
	}
	if n == 2 {
		newest := jobs.List[0]
		plan := result.Plan{JobName: newest.Name, Shard: newest.Shard, Beside: newest.beside}
		if base := besideDir(h.Paths, newest.Dir, plan); base != "" {
			return []string{newest.Dir, base}, nil
		}
	}
	if len(jobs.List) < n {
		return nil, usage("there is only one job in %s: give the directories of two", JobsDir)
	}
	dirs := make([]string, n)
	for i, listed := range jobs.List {
		dirs[i] = listed.Dir
	}
	return dirs, nil
}
