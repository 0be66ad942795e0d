package trial

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/trial/artifacts"
	"github.com/org/rollout-action/internal/run/trial/failure"
	"github.com/org/rollout-action/internal/run/trial/networks"
	"github.com/org/rollout-action/internal/run/trial/services"
)

// Again makes a trial begin with the outcome, the environment or the artifacts of an earlier one,
// without installing and running the agent.
type Again struct {
	Job    string       // the name of the job that ran the earlier trial
	From   string       // its directory, as it was given
	Before result.Trial // the result of the earlier trial
	// Outcome reports whether to use the files as the agent left them, and not those of the
	// environment after the tests. Before has both.
	Outcome bool
	// Artifacts is the directory of the earlier trial, whose artifacts are put into a new
	// environment. nil: see Outcome.
	Artifacts fs.FS
	// Steps says for each step that ran of a task with steps what its tests run on. Outcome has no
	// meaning then, and Artifacts is for those steps that need it.
	Steps []StepAgain
}

// CanVerifyAgain reports whether the tests may run again for a trial of s with the result t: its
// agent has ended, and the task and the job verify trials that ended so. Of a task with steps, that
// is so for one of them.
func CanVerifyAgain(s Spec, job config.Job, t result.Trial) bool {
	if len(s.Task.Config.Steps) > 0 {
		steps, _ := StepsAgain(s, job, t)
		return slices.Contains(steps, true) && (t.Error == nil || t.Error.Type.Fault() != result.FaultJudge)
	}
	if t.Error != nil && !agentsError(t.Error) && t.Error.Type.Fault() != result.FaultVerifier && t.Error.Type != result.EnvironmentTeardownFailed {
		return false
	}
	x := execution{agentRun: agentRun{plan: newPlan(s, job)}}
	x.Trial.Error = errorOfAgent(t)
	return !job.Verifier.Disable && x.mayVerify()
}

func agentsError(e *result.Error) bool { return e != nil && e.Type.Fault() == result.FaultAgent }

// errorOfAgent returns the error of the agent that a trial ended with, or nil.
func errorOfAgent(t result.Trial) *result.Error {
	if !agentsError(t.Error) {
		return nil
	}
	failed := *t.Error
	return &failed
}

// continueFrom copies the agent's part of the earlier trial into the result. first reports whether
// no execution of this trial has done so.
func (x *execution) continueFrom(again *Again, first bool) {
	before, t := again.Before, &x.Trial
	t.AgentDigest = before.AgentDigest
	t.Durations.AgentSetupSec, t.Durations.AgentExecutionSec = before.Durations.AgentSetupSec, before.Durations.AgentExecutionSec
	t.Reverified = &result.Reverified{
		Job: again.Job, From: again.From, StartedAt: before.Timestamps.StartedAt,
		TaskDigest: before.TaskDigest, Reward: before.Reward, AgentCosts: before.Costs,
	}
	switch {
	case len(again.Steps) > 0:
		again.continueSteps(t.Reverified)
	case again.Artifacts != nil:
		t.Reverified.Artifacts = true
	case again.Outcome:
		t.Reverified.Environment, t.Reverified.Outcome = before.Environment.Outcome.ID, true
	default:
		t.Reverified.Environment = before.Environment.ID
	}
	if before.Reverified != nil { // that trial ran no agent either
		t.Reverified.AgentCosts = before.Reverified.AgentCosts
	}
	if first {
		t.Costs = t.Costs.Plus(t.Reverified.AgentCosts)
	}
}

// artifactCopies returns the artifacts that a trial has kept in a directory as copies for an
// environment.
func artifactCopies(dir fs.FS, all []result.Artifact) ([]environment.Copy, error) {
	var copies []environment.Copy
	for _, kept := range all {
		links, err := artifacts.Links(dir, kept)
		if err != nil {
			return nil, err
		}
		entries, err := artifacts.Entries(dir, kept)
		if err != nil {
			return nil, err
		}
		one, err := artifacts.Copy(dir, kept, links, entries)
		if err != nil {
			return nil, err
		}
		copies = append(copies, one)
	}
	return copies, nil
}

// restore starts an environment with the files of the one that the earlier trial kept.
func (x *execution) restore(ctx context.Context) error {
	if services.Needed(x.spec.Task) {
		return failure.Newf(result.EnvironmentStartFailed, "the services of the task's docker-compose.yaml are not kept, so its environment cannot be continued: run the trial again")
	}
	before := x.spec.Again.Before.Environment
	image := before.Image
	if before.AgentLayer != nil {
		image = before.AgentLayer.Image
	}
	x.Trial.Environment.Image, x.Trial.Environment.ImageID, x.Trial.Environment.AgentLayer = before.Image, before.ImageID, before.AgentLayer
	x.Trial.Environment.Network = networks.Record(x.networks)
	create := func(ctx context.Context, opts environment.CreateOptions) (environment.Environment, error) {
		return environment.Restore(ctx, x.opts.Provider, x.Trial.Reverified.Environment, opts)
	}
	return x.beginAgain(ctx, environment.CreateOptions{Image: image, Network: x.networks.Verify}, create)
}

// refill starts a new environment from the task's image, with the artifacts of the earlier trial.
func (x *execution) refill(ctx context.Context) error {
	ref, err := x.image(ctx)
	if err != nil {
		return err
	}
	files, err := x.files()
	if err != nil {
		return err
	}
	kept, err := artifactCopies(x.spec.Again.Artifacts, x.spec.Again.Before.Artifacts)
	if err != nil {
		return err
	}
	mounted, err := x.mounted()
	if err != nil {
		return err
	}
	opts := environment.CreateOptions{Image: ref, Files: slices.Concat(mounted, services.Into(x.spec.Task, kept), files), Network: x.networks.Verify}
	create, err := x.creation(ctx)
	if err != nil {
		return err
	}
	err = x.beginAgain(ctx, opts, create)
	if errors.Is(err, environment.ErrNoImage) {
		x.images.Forget(x.spec.Task, ref)
	}
	return err
}

// beginAgain begins an environment with the files that the agent of the earlier trial left. The
// agent's error is that of this trial, too.
func (x *execution) beginAgain(ctx context.Context, opts environment.CreateOptions, create createFunc) error {
	err := x.begin(ctx, opts, create)
	if err == nil {
		x.Trial.Error = errorOfAgent(x.spec.Again.Before)
	}
	return err
}
