package trial

import (
	"cmp"
	"context"
	"path"
	"slices"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/run/trial/artifacts"
	"github.com/org/rollout-action/internal/run/trial/timing"
)

// keepArtifacts copies the files of main that the task and the job keep out of the environment,
// after the agent has ended for any reason, and before the verifier can change them.
func (x *execution) keepArtifacts(ctx context.Context) {
	if x.artifactsKept {
		return
	}
	x.artifactsKept = true
	keepArtifactsOf(ctx, x, true)
}

// keepArtifactsOf keeps the artifacts of main, or those of the other services.
func keepArtifactsOf(ctx context.Context, x *execution, main bool) {
	wanted := slices.DeleteFunc(wantedBy(x), func(a task.Artifact) bool { return isMain(a.Service) != main })
	if len(wanted) == 0 || x.live == nil || !x.NoError() && !x.AgentFailed() || ctx.Err() != nil {
		return
	}
	c, cancel := x.Cleanup(ctx, timing.CollectTimeout, timing.CollectGrace)
	defer cancel()
	x.tests.unkept = cmp.Or(x.tests.unkept, artifacts.Keep(c, &x.Record, x.live.env, wanted))
}

// wantedBy returns the artifacts that the trial keeps. Those of an earlier trial are in main,
// whichever service had them.
func wantedBy(x *execution) []task.Artifact {
	wanted := artifacts.Wanted(x.spec.WantedArtifacts(x.job), slices.Concat(x.judgedArtifacts(), x.alsoKept))
	if x.spec.Again != nil {
		for i := range wanted {
			wanted[i].Service = ""
		}
	}
	return wanted
}

// WantedArtifacts returns the files that a trial keeps for the task and the job. If the tests do
// not run in the agent's environment, these are carried over to theirs, and in tasks made for
// Harbor with them the directory in which agents leave artifacts.
func (s Spec) WantedArtifacts(job config.Job) []task.Artifact {
	of := slices.Clone(job.Artifacts)
	if apart, _ := s.apart(job); apart != nil && slices.Contains(s.Task.Rules().LogDirs, environment.ArtifactLogs) {
		of = append(of, environment.ArtifactLogs)
	}
	return artifacts.Wanted(s.Task.Config.Artifacts, of)
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
