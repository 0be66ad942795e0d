package trial

import (
	"context"
	"path"
	"slices"

	"github.com/org/rollout-action/internal/run/trial/artifacts"
	"github.com/org/rollout-action/internal/run/trial/timing"
)

// keepArtifacts copies the files that the task and the job keep out of the environment, after the
// agent has ended for any reason, and before the verifier can change them.
func (x *execution) keepArtifacts(ctx context.Context) {
	wanted := artifacts.Wanted(x.spec.Task.Config.Artifacts, append(slices.Clone(x.job.Artifacts), x.judgedArtifacts()...))
	if len(wanted) == 0 || x.live == nil || !x.NoError() && !x.AgentFailed() || ctx.Err() != nil {
		return
	}
	c, cancel := x.Cleanup(ctx, timing.CollectTimeout, timing.CollectGrace)
	defer cancel()
	artifacts.Keep(c, &x.Record, x.live.env, wanted)
}

// judgedArtifacts returns the paths of the artifacts that judges in fresh environments read.
func (x *execution) judgedArtifacts() (paths []string) {
	for _, j := range slices.Concat(x.spec.Judges, x.spec.GroupJudges) {
		for _, p := range j.Artifacts {
			if p = path.Clean(p); !slices.Contains(paths, p) && !slices.Contains(x.job.Artifacts, p) {
				paths = append(paths, p)
			}
		}
	}
	return paths
}
