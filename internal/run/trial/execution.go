package trial

import (
	"context"
	"errors"
	"time"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/trial/layer"
)

// execution is one execution of a trial, from image to teardown. A trial whose environment is lost
// before the agent begins is executed again.
type execution struct {
	*Runner
	plan
	record
	deadlines
	refusals refusals

	live   *liveEnvironment // nil until it is made
	making *layer.Layer     // the layer that this trial makes and others may wait for; nil: none
	layer  *layer.Layer     // the environment's layer, with the agent installed; nil if it is based on the task's image

	visit *visiting // nil: there is none

	gateway *gateway // the agent's gateway; nil: none
	marker  *marker  // ends the processes that the agent starts; nil: no judge needs it
	// untouchable is the reason why judges that need the other processes to be ended cannot work in
	// the environment any more; nil: they can.
	untouchable error

	agentBegan bool
	changes    string // the files that the agent has changed, for judges; "": not recorded, or there are no judges
	// late is the delay after which the end of the step's script was known. The step's time is
	// measured by the environment's clock.
	late time.Duration
	// remains is set if processes of an agent that is out of time may still run.
	remains bool
	// startOver is the reason why the trial has to be executed again: its environment, its image,
	// the machine or the gateway to its model failed before the agent had begun. Otherwise it is
	// nil.
	startOver error
}

// step is one phase on the way to a verdict.
type step struct {
	phase  event.Phase
	wanted func(*execution) bool
	do     func(*execution, context.Context) error
	span   func(*result.Trial) span
}

// span points to the fields for the times of a step.
type span struct {
	began, ended **time.Time
	seconds      **float64
}

// steps lists the steps in order. A step after a failure runs only if it wants to.
// Source: specification, "Container environment" and "Error handling behavior".
var steps = []step{
	{event.EnvironmentSetup, (*execution).wantsSetup, (*execution).setup, func(t *result.Trial) span {
		return span{&t.Timestamps.EnvironmentSetupStartedAt, &t.Timestamps.EnvironmentSetupEndedAt, &t.Durations.EnvironmentSetupSec}
	}},
	{event.AgentSetup, (*execution).wantsInstall, (*execution).install, func(t *result.Trial) span {
		return span{&t.Timestamps.AgentSetupStartedAt, &t.Timestamps.AgentSetupEndedAt, &t.Durations.AgentSetupSec}
	}},
	{event.AgentExecution, (*execution).wantsExecute, (*execution).execute, func(t *result.Trial) span {
		return span{&t.Timestamps.AgentExecutionStartedAt, &t.Timestamps.AgentExecutionEndedAt, &t.Durations.AgentExecutionSec}
	}},
	{event.Verifier, (*execution).wantsVerify, (*execution).verify, func(t *result.Trial) span {
		return span{&t.Timestamps.VerifierStartedAt, &t.Timestamps.VerifierEndedAt, &t.Durations.VerifierSec}
	}},
}

// judgingStep comes after the verifier, in trials with judges.
var judgingStep = step{event.Judging, (*execution).wantsJudges, (*execution).judgeAll, func(t *result.Trial) span {
	return span{&t.Timestamps.JudgesStartedAt, &t.Timestamps.JudgesEndedAt, &t.Durations.JudgesSec}
}}

// run executes the trial's steps. It always collects the logs and tears down, whatever failed
// before, even after a panic.
func (x *execution) run(ctx context.Context) {
	defer x.finish()
	defer x.abandonLayer()
	if err := taskError(x.spec); err != nil {
		x.fail(err)
		return
	}
	var stop func()
	x.deadlines, stop = newDeadlines(ctx, x.opts, x.recordRetry)
	defer stop()
	ctx = environment.WithRetryNotify(ctx, x.recordRetry)
	if x.spec.Judging != nil {
		x.step(ctx, judgingStep)
		return
	}
	for _, s := range steps {
		if s.phase == event.Verifier && x.visit == nil {
			x.keepArtifacts(ctx)
			x.keepOutcome(ctx)
			x.keepChanges(ctx)
		}
		if s.wanted(x) {
			x.step(ctx, s)
		}
		if x.visit.isLast(s.phase) {
			break
		}
	}
	if x.visit != nil {
		if x.visit.isLast(event.Verifier) {
			x.collect(ctx)
		}
		x.receive(ctx)
	}
	collected := x.wantsVerdicts()
	if collected { // before judges can change anything there
		x.collect(ctx)
		if x.wantsJudges() {
			x.step(ctx, judgingStep)
		}
	}
	ended := x.live != nil && x.live.stop()
	if x.visit == nil && !collected {
		x.collect(ctx)
	}
	x.teardown(ctx, ended)
	x.gateway.close()
	x.dropOutcome(ctx)
	x.suggestHarbor(x.trial.Error)
	x.refusals.warn(x.warn)
}

// step runs one step, and records its times and its failure.
func (x *execution) step(ctx context.Context, s step) {
	defer x.recoverPanic()
	if ctx.Err() != nil {
		x.fail(cancelled(ctx, s.phase))
		return
	}
	x.emit(event.Event{Kind: event.PhaseStarted, Phase: s.phase})
	at, begin := s.span(&x.trial), x.now()
	began := result.Stamp(begin)
	*at.began = &began
	defer func() { // also when the step panics
		end := x.now()
		ended, seconds := result.Stamp(end), result.Seconds(end.Sub(begin)-x.late)
		x.late = 0
		*at.ended, *at.seconds = &ended, &seconds
	}()
	err := s.do(x, ctx)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		x.fail(cancelled(ctx, s.phase))
	default:
		f := classify(s.phase, err, x.timeouts, x.secrets)
		if limit := x.memoryLimit(x.trial.Environment.Unenforced); limit != "" && errors.Is(err, environment.ErrOutOfMemory) {
			f.Message += " (" + limit + ")"
		}
		if environment.KindOf(err) == environment.KindLost && environment.ExceededLimits(err) {
			x.spent = true
			if s.phase == event.Verifier && x.agentBegan && errors.Is(err, environment.ErrOutOfStorage) && x.now().Sub(begin) < storageLag {
				f.Type = result.AgentExecutionFailed // which filled it
			}
		}
		if s.phase == event.Verifier && (x.agentBegan || x.spec.Again != nil) && environment.KindOf(err) == environment.KindExec && !errors.Is(err, environment.ErrNotBegun) {
			f = unusable(err, x.secrets)
		}
		if s.phase == event.Verifier && x.agentBegan && crowdedOut(f, err) && environment.Crowded(ctx, x.live.env) {
			f = failf(result.AgentExecutionFailed, "the agent left processes that fill the environment's limit, so that the tests could not start theirs: %s", f.Message)
		}
		x.fail(f)
		x.startOver = nil
		if !x.agentBegan && (f.Type == result.EnvironmentLost || errors.Is(err, environment.ErrNoImage) || f.machineFault != nil || f.again) {
			x.startOver = err
		}
	}
}

func (x *execution) wantsSetup() bool { return x.noError() }

func (x *execution) wantsInstall() bool {
	return x.noError() && x.spec.Agent.Install != "" && x.layer == nil && x.spec.Again == nil
}

func (x *execution) wantsExecute() bool {
	return x.noError() && x.spec.Agent.Name != agent.Nop && x.spec.Again == nil
}

func (x *execution) wantsVerify() bool {
	if x.job.Verifier.Disable || x.remains || x.spent {
		return false
	}
	if x.noError() {
		return true
	}
	return x.agentFailed() && (x.rules.VerifyAfterFailure || x.job.Verifier.OnAgentFailure == config.RunVerifier)
}
