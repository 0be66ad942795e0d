package trial

import (
	"context"

	"github.com/org/rollout-action/internal/config"
	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/internal/result"
)

// Again makes a trial begin with the environment that an earlier one kept, without installing and running the agent.
type Again struct {
	Job    string       // the name of the job that ran the earlier trial
	From   string       // its directory, as it was given
	Before result.Trial // the result of the earlier trial, whose environment was kept
}

// CanVerifyAgain reports whether the tests may decide about a trial of s with the result t: its agent has ended, in a way after which
// the task and the job have it verified.
func CanVerifyAgain(s Spec, job config.Job, t result.Trial) bool {
	if t.Error != nil && !agentsError(t.Error) && t.Error.Type.Fault() != result.FaultVerifier && t.Error.Type != result.EnvironmentTeardownFailed {
		return false
	}
	x := execution{plan: newPlan(s, job)}
	x.trial.Error = errorOfAgent(t)
	return x.wantsVerify()
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

// continueFrom puts what the earlier trial's agent did into the result. first: no execution of this trial has done that.
func (x *execution) continueFrom(again *Again, first bool) {
	before, t := again.Before, &x.trial
	t.AgentDigest = before.AgentDigest
	t.Durations.AgentSetupSec, t.Durations.AgentExecutionSec = before.Durations.AgentSetupSec, before.Durations.AgentExecutionSec
	t.Reverified = &result.Reverified{
		Job: again.Job, From: again.From, StartedAt: before.Timestamps.StartedAt, Environment: before.Environment.ID,
		TaskDigest: before.TaskDigest, Reward: before.Reward, AgentCosts: before.Costs,
	}
	if before.Reverified != nil { // it ran no agent either
		t.Reverified.AgentCosts = before.Reverified.AgentCosts
	}
	if first {
		t.Costs = t.Costs.Plus(t.Reverified.AgentCosts)
	}
}

// restore starts an environment with the files of the one that the earlier trial kept.
func (x *execution) restore(ctx context.Context) error {
	before := x.spec.Again.Before.Environment
	image := before.Image
	if before.AgentLayer != nil {
		image = before.AgentLayer.Image
	}
	x.trial.Environment.Image, x.trial.Environment.ImageID, x.trial.Environment.AgentLayer = before.Image, before.ImageID, before.AgentLayer
	x.trial.Environment.Network = networkRecord(x.networks)
	create := func(ctx context.Context, opts environment.CreateOptions) (environment.Environment, error) {
		return environment.Restore(ctx, x.opts.Provider, before.ID, opts)
	}
	err := x.begin(ctx, environment.CreateOptions{Image: image, Network: x.networks.Verify}, create)
	if err == nil {
		x.trial.Error = errorOfAgent(x.spec.Again.Before)
	}
	return err
}
