package trial

import (
	"cmp"
	"context"
	"errors"
	"path"
	"slices"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/run/trial/artifacts"
	"github.com/org/rollout-action/internal/run/trial/failure"
	"github.com/org/rollout-action/internal/run/trial/judging"
	"github.com/org/rollout-action/internal/run/trial/timing"
)

// keepChanges records the files that the agent has changed, for judges. Source: docs/judges.md.
func (x *execution) keepChanges(ctx context.Context) {
	if x.live == nil || !x.agentBegan || ctx.Err() != nil {
		return
	}
	c, cancel := context.WithTimeout(ctx, timing.CollectTimeout)
	defer cancel()
	brought := map[string]bool{} // the files that came with the agent
	if x.spec.Files != nil {
		for name := range x.spec.Files.Sums(x.spec.Files.Files) {
			brought[name] = true
		}
	}
	got, err := environment.ChangesOf(c, x.live.env, environment.ChangeOptions{
		First: cmp.Or(x.spec.Task.Config.Environment.WorkDir, "/app"), Files: judging.MaxChangedFiles, Text: judging.MaxChangedText,
		Skip: func(name string) bool {
			return brought[name] || name == "/" || name == path.Clean(x.job.InstructionPath) || slices.ContainsFunc(environment.SpecialDirs(), func(dir string) bool { return artifacts.Within(name, dir) })
		},
	})
	switch {
	case ctx.Err() != nil:
		return
	case err == nil:
		x.changes = judging.DescribeChanges(got, x.Secrets)
		return
	case !errors.Is(err, errors.ErrUnsupported):
		x.Warn("judges do not see which files the agent has changed: %s", failure.Brief(err, x.Secrets))
	}
	x.changes = "It is not known which files the agent has changed.\n"
}
