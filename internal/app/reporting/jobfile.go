package reporting

import (
	"path/filepath"
	"strings"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/job/resume"
)

// noJobFile stands for the path of a job file in a printed command if it is not known.
const noJobFile = "JOB_FILE"

// jobFile returns the path of a job's file, for a printed command: where the job in dir was
// planned, or else below the current directory, where it is after the job's directory has moved. If
// there is no such file any more, or if the job had none, it returns noJobFile. FLAGS after the
// path stands for flags that the job was run with and that its work depends on: their values may be
// secret.
func jobFile(paths host.Paths, dir string, plan result.Plan) string {
	file, flags := filepath.FromSlash(plan.JobFile), ""
	if plan.JobFlags {
		flags = " FLAGS"
	}
	if file == "" {
		return noJobFile
	}
	stored := resume.Job{Dir: paths.Path(dir), Plan: plan}
	if from, err := stored.PathsFrom(); err == nil && from != "" {
		if was := filepath.Join(from, filepath.Base(file)); host.IsFile(was) {
			return host.QuotedPath(paths.Shown(was)) + flags
		}
	}
	if filepath.IsLocal(file) && host.IsFile(paths.Path(file)) {
		return host.QuotedPath(file) + flags
	}
	return noJobFile
}

// pairJobFile returns what jobFile does, for the job that ran together with another one. dir has
// either of them; plan is its plan. The baseline's own job file is in a checkout of its commit.
func pairJobFile(paths host.Paths, dir string, plan result.Plan) string {
	if !plan.Beside.Baseline {
		return jobFile(paths, dir, plan)
	}
	shard := ""
	if plan.Shard != nil {
		shard = ShardSuffix(*plan.Shard)
	}
	of, ok := strings.CutSuffix(strings.TrimSuffix(filepath.Clean(dir), shard), AgainstSuffix(plan.Beside.Commit))
	if !ok {
		return noJobFile
	}
	head, err := result.ReadPlanHead(paths.Path(of + shard))
	if err != nil {
		return noJobFile
	}
	return jobFile(paths, of+shard, head)
}
