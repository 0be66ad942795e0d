package trial

import (
	"context"
	"errors"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/trial/failure"
)

// step is a step on the way through a trial or an attempt of a judge. The list of steps is fixed
// before the first one begins.
type step struct {
	name string
	do   func(context.Context)
}

// when returns the step with a condition that is evaluated when its turn comes.
func (s step) when(wanted func() bool) step {
	return step{s.name, func(ctx context.Context) {
		if wanted() {
			s.do(ctx)
		}
	}}
}

// walk runs the steps. It continues after errors and panics.
func (x *agentRun) walk(ctx context.Context, steps []step) {
	defer x.Finish()
	defer x.abandonLayer()
	ctx = environment.WithRetryNotify(ctx, x.RecordRetry)
	for _, s := range steps {
		func() {
			defer x.RecoverPanic()
			s.do(ctx)
		}()
	}
}

// phase returns a phase as a step.
func (x *agentRun) phase(phase event.Phase, do func(context.Context) error) step {
	return step{string(phase), func(ctx context.Context) { x.runPhase(ctx, phase, do) }}
}

// span points to the fields for the times of a phase.
type span struct {
	began, ended **time.Time
	seconds      **float64
}

var spans = map[event.Phase]func(*result.Trial) span{
	event.EnvironmentSetup: func(t *result.Trial) span {
		return span{&t.Timestamps.EnvironmentSetupStartedAt, &t.Timestamps.EnvironmentSetupEndedAt, &t.Durations.EnvironmentSetupSec}
	},
	event.AgentSetup: func(t *result.Trial) span {
		return span{&t.Timestamps.AgentSetupStartedAt, &t.Timestamps.AgentSetupEndedAt, &t.Durations.AgentSetupSec}
	},
	event.AgentExecution: func(t *result.Trial) span {
		return span{&t.Timestamps.AgentExecutionStartedAt, &t.Timestamps.AgentExecutionEndedAt, &t.Durations.AgentExecutionSec}
	},
	event.Verifier: func(t *result.Trial) span {
		return span{&t.Timestamps.VerifierStartedAt, &t.Timestamps.VerifierEndedAt, &t.Durations.VerifierSec}
	},
	event.Judging: func(t *result.Trial) span {
		return span{&t.Timestamps.JudgesStartedAt, &t.Timestamps.JudgesEndedAt, &t.Durations.JudgesSec}
	},
}

// runPhase runs a phase, and records its times and its failure.
func (x *agentRun) runPhase(ctx context.Context, phase event.Phase, do func(context.Context) error) {
	if ctx.Err() != nil {
		x.Fail(failure.Cancelled(ctx, phase))
		return
	}
	x.Emit(event.Event{Kind: event.PhaseStarted, Phase: phase})
	at, begin := spans[phase](&x.Trial), x.Now()
	began := result.Stamp(begin)
	*at.began = &began
	defer func() { // also when the step panics
		end := x.Now()
		ended, seconds := result.Stamp(end), result.Seconds(end.Sub(begin)-x.late)
		x.late = 0
		*at.ended, *at.seconds = &ended, &seconds
	}()
	switch err := do(ctx); {
	case err == nil:
	case ctx.Err() != nil:
		x.Fail(failure.Cancelled(ctx, phase))
	default:
		x.failPhase(ctx, phase, err, x.Now().Sub(begin))
	}
}

// failPhase records the failure of a phase. took is the duration of the phase.
func (x *agentRun) failPhase(ctx context.Context, phase event.Phase, err error, took time.Duration) {
	f := failure.Classify(phase, err, x.timeouts, x.Secrets)
	agentWasHere := x.agentBegan && !x.elsewhere
	if limit := x.memoryLimit(x.unenforcedHere()); limit != "" && errors.Is(err, environment.ErrOutOfMemory) {
		f.Message += " (" + limit + ")"
	}
	if environment.KindOf(err) == environment.KindLost && environment.ExceededLimits(err) {
		x.Spent = true
		if phase == event.Verifier && agentWasHere && errors.Is(err, environment.ErrOutOfStorage) && took < failure.StorageLag {
			f.Type = result.AgentExecutionFailed // which filled it
		}
	}
	if phase == event.Verifier && (agentWasHere || x.spec.Again != nil) && environment.KindOf(err) == environment.KindExec && !errors.Is(err, environment.ErrNotBegun) {
		f = failure.Unusable(err, x.Secrets)
	}
	if phase == event.Verifier && agentWasHere && failure.CrowdedOut(f, err) && environment.Crowded(ctx, x.live.env) {
		f = failure.Newf(result.AgentExecutionFailed, "the agent left processes that fill the environment's limit, so that the tests could not start theirs: %s", f.Message)
	}
	f.Message = x.spec.Task.Worded(f.Message)
	x.Fail(f)
	x.startOver = nil
	if !x.agentBegan && (f.Type == result.EnvironmentLost || errors.Is(err, environment.ErrNoImage) || f.MachineFault != nil || f.Again) {
		x.startOver = err
	}
}
