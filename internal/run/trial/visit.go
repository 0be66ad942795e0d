package trial

import (
	"context"
	"errors"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/trial/failure"
)

// Visit hands the environment of a trial over to a caller between two phases.
type Visit struct {
	// After is the last phase that runs before: EnvironmentSetup, AgentSetup, AgentExecution or
	// Verifier. If an earlier one fails, the environment is handed over as it is then.
	After event.Phase
	// Enter is called at most once, with the environment of the trial. When it returns, the
	// environment is destroyed.
	Enter func(ctx context.Context, in Visited) error
}

// Visited is an environment that is handed over.
type Visited struct {
	Environment environment.Environment
	// Options are those of the next phase's command, without streams and timeout; after the
	// verifier, those of the verifier.
	Options environment.ExecOptions
	// Trial is the result so far. After the verifier, it has the reward.
	Trial result.Trial
}

// Visit runs the phases of a trial up to the visit's, and no others, and hands the environment
// over. dir and the outcome are as in Run. entered is false if Enter was not called; then the
// outcome has the reason. The error is that of Enter.
func (r *Runner) Visit(ctx context.Context, spec Spec, dir string, visit Visit) (out Outcome, entered bool, err error) {
	v := &visiting{Visit: visit}
	if visit.After == event.EnvironmentSetup {
		spec.Agent.CacheInstall = new(false) // a layer has the agent already
	}
	spec.Judges, spec.GroupJudges = nil, nil
	if steps := spec.Task.Steps(); len(steps) > 0 {
		at := 0 // the visit is of the first step
		if spec.Again != nil {
			at = min(max(len(spec.Again.Before.Steps), 1), len(steps)) - 1 // what was kept is of the last one that ran
		}
		spec.Task = steps[at]
	}
	out = r.run(ctx, spec, dir, v)
	return out, v.entered, v.err
}

// visiting is a visit in progress.
type visiting struct {
	Visit
	entered bool
	err     error
}

// receive hands the environment over.
func (x *execution) receive(ctx context.Context, visit *visiting) {
	if x.live == nil || x.startOver != nil || x.LostEnvironment() || ctx.Err() != nil {
		return
	}
	in := Visited{Environment: x.live.env, Options: environment.ExecOptions{Env: x.commandEnv(), WorkDir: x.spec.Task.Config.Environment.WorkDir}}
	more := x.agentEnv()
	switch {
	case visit.After == event.EnvironmentSetup && x.spec.Again == nil: // the install script comes next, which runs as the image's user
	case visit.After == event.Verifier:
		more, in.Options.User = x.spec.Task.VerifierEnv(), string(x.spec.Task.Config.Verifier.User)
	default:
		in.Options.User = string(x.spec.Task.Config.Agent.User)
		if err := x.switchNetwork(ctx, "the agent", x.networks.Agent); err != nil {
			x.Fail(failure.Classify(event.AgentExecution, err, x.timeouts, x.Secrets))
			return
		}
	}
	for name, value := range more {
		in.Options.Env[name] = value
	}
	x.refusals.SetActor("the visitor")
	in.Trial = x.Trial
	visit.entered = true
	if visit.err = visit.Enter(ctx, in); visit.err != nil && ctx.Err() != nil {
		visit.err = errors.Join(ctx.Err(), visit.err)
	}
}
