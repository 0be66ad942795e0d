package host

import (
	"path/filepath"

	"github.com/org/rollout-action/internal/core/result"
)

// JobsDir is the default directory of jobs, relative to the current one.
const JobsDir = "jobs"

// NamedJob returns the directory of the job that an argument names: the argument itself if it is a
// file or a job's directory, else the directory of that name below JobsDir if it exists, else the
// argument. So a job may have the name of its dataset's directory.
func (p Paths) NamedJob(arg string) string {
	if arg == "" || !filepath.IsLocal(arg) || IsFile(p.Path(arg)) || p.HasJob(arg) {
		return arg
	}
	if below := filepath.Join(JobsDir, arg); IsDir(p.Path(below)) {
		return below
	}
	return arg
}

// HasJob reports whether a directory has the plan or the results of a job.
func (p Paths) HasJob(dir string) bool {
	return IsJobDir(p, dir) || IsFile(filepath.Join(p.Path(dir), result.ResultFile))
}
