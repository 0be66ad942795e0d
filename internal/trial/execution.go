package trial

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/agent"
	"github.com/org/rollout-action/internal/awake"
	"github.com/org/rollout-action/internal/config"
	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/internal/event"
	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/internal/task"
)

// execution runs a trial once, from image to teardown. A trial whose environment is lost before the agent begins is executed again.
type execution struct {
	*Runner
	spec     Spec
	rules    task.Rules // of the task's format
	dir      string
	timeouts Timeouts
	networks task.Networks
	network  environment.Network // what env may reach now
	refusals refusals
	started  time.Time

	env           environment.Environment // nil until it is made
	stop          func() (ended bool)     // see destroyOnCancel
	endedOnCancel bool                    // env was stopped or destroyed because it did not react to a cancel
	trial         result.Trial
	detail        string // more about the error than fits its message

	// graces are over when their time after the cancel is. To be called only after that.
	graces func() map[time.Duration]<-chan struct{}

	making *layer // that others may wait for: to be settled, whatever happens
	layer  *layer // that the environment stands on, with the agent installed

	agentBegan     bool
	testsEnded     bool  // the test script ran to its end
	testsExitCode  int   // and ended with this
	startOver      bool  // the environment or its image was lost, and nothing of the agent's with it
	startOverCause error // why
	oomKills       int   // environment.Environment.OOMKills when it was last asked
	machineFault   error // this machine's failure that the trial's error is; nil if it is another one
}

// step is one phase on the way to a verdict.
type step struct {
	phase  event.Phase
	wanted func(*execution) bool
	do     func(*execution, context.Context) error
	span   func(*execution) span
}

// span is where a step's times are written.
type span struct {
	began, ended **time.Time
	seconds      **float64
}

// steps, in order. A step after a failure runs only if it wants to.
// Source: specification, "Container environment" and "Error handling behavior".
var steps = []step{
	{event.EnvironmentSetup, (*execution).noError, (*execution).setup, func(a *execution) span {
		t := &a.trial.Timestamps
		return span{&t.EnvironmentSetupStartedAt, &t.EnvironmentSetupEndedAt, &a.trial.Durations.EnvironmentSetupSec}
	}},
	{event.AgentSetup, (*execution).wantsInstall, (*execution).install, func(a *execution) span {
		t := &a.trial.Timestamps
		return span{&t.AgentSetupStartedAt, &t.AgentSetupEndedAt, &a.trial.Durations.AgentSetupSec}
	}},
	{event.AgentExecution, (*execution).wantsExecute, (*execution).execute, func(a *execution) span {
		t := &a.trial.Timestamps
		return span{&t.AgentExecutionStartedAt, &t.AgentExecutionEndedAt, &a.trial.Durations.AgentExecutionSec}
	}},
	{event.Verifier, (*execution).wantsVerify, (*execution).verify, func(a *execution) span {
		t := &a.trial.Timestamps
		return span{&t.VerifierStartedAt, &t.VerifierEndedAt, &a.trial.Durations.VerifierSec}
	}},
}

// run executes the trial's steps. It always collects the logs and tears down, whatever went wrong before, also after a
// panic.
func (x *execution) run(ctx context.Context) {
	defer x.finish()
	defer x.abandonLayer()
	if err := taskError(x.spec); err != nil {
		x.fail(err)
		return
	}
	counting, stop := context.WithCancel(x.opts.Hard)
	defer stop()
	x.graces = sync.OnceValue(func() map[time.Duration]<-chan struct{} {
		graces := map[time.Duration]<-chan struct{}{}
		for _, grace := range []time.Duration{stuckGrace, collectGrace, teardownGrace} {
			graces[grace] = awake.After(counting, grace)
		}
		return graces
	})
	defer context.AfterFunc(ctx, func() { x.graces() })()
	ctx = environment.WithRetryNotify(ctx, x.recordRetry)
	for _, s := range steps {
		if s.phase == event.Verifier {
			x.keepArtifacts(ctx)
		}
		if s.wanted(x) {
			x.step(ctx, s)
		}
	}
	if x.env != nil {
		x.endedOnCancel = x.stop()
	}
	x.collect(ctx)
	x.teardown(ctx)
	x.suggestHarbor()
	x.warnRefusals()
}

func (x *execution) step(ctx context.Context, s step) {
	defer x.recoverPanic()
	if ctx.Err() != nil {
		x.fail(cancelled(ctx, s.phase))
		return
	}
	x.emit(event.Event{Kind: event.PhaseStarted, Phase: s.phase})
	at, begin := s.span(x), x.opts.Now()
	began := result.Stamp(begin)
	*at.began = &began
	defer func() { // also when the step panics
		end := x.opts.Now()
		ended, seconds := result.Stamp(end), result.Seconds(end.Sub(begin))
		*at.ended, *at.seconds = &ended, &seconds
	}()
	err := s.do(x, ctx)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		x.fail(cancelled(ctx, s.phase))
	default:
		f := classify(s.phase, err, x.timeouts, x.opts.Redactor)
		x.addMemoryLimit(f, err)
		x.fail(f)
		x.startOver = !x.agentBegan && (f.Type == result.EnvironmentLost || errors.Is(err, environment.ErrNoImage) || f.machineFault != nil)
		x.startOverCause = err
	}
}

func (x *execution) noError() bool { return x.trial.Error == nil }

func (x *execution) wantsInstall() bool {
	return x.noError() && x.spec.Agent.Install != "" && x.layer == nil
}

func (x *execution) wantsExecute() bool { return x.noError() && x.spec.Agent.Name != agent.Nop }

// agentFailed reports whether the agent ran, and did not end well.
func (x *execution) agentFailed() bool {
	e := x.trial.Error
	return e != nil && (e.Type == result.AgentExecutionFailed || e.Type == result.AgentExecutionTimeout)
}

func (x *execution) wantsVerify() bool {
	if x.opts.Job.Verifier.Disable {
		return false
	}
	if x.noError() {
		return true
	}
	return x.agentFailed() && (x.rules.VerifyAfterFailure || x.opts.Job.Verifier.OnAgentFailure == config.RunVerifier)
}

// fail records a failure. The first one is the trial's error, later ones become warnings, unless the environment was lost
// before the verifier could judge an agent that had failed.
func (x *execution) fail(f *failure) {
	f.Message = strings.Join(strings.Fields(hide(x.opts.Redactor, f.Message)), " ") // one line
	if before := x.trial.Error; before != nil && x.agentFailed() && f.Type == result.EnvironmentLost {
		// The agent's failure was to be judged, and never was: that is nobody's word on the agent.
		x.trial.Warnings = append(x.trial.Warnings, fmt.Sprintf("%s: %s", before.Type, before.Message))
		x.trial.Error = nil
	}
	if x.trial.Error != nil {
		x.trial.Warnings = append(x.trial.Warnings, fmt.Sprintf("%s: %s", f.Type, f.Message))
		return
	}
	x.trial.Error = &result.Error{Type: f.Type, Message: f.Message}
	x.machineFault = f.machineFault
	x.detail = hide(x.opts.Redactor, f.detail)
}

func (x *execution) warn(format string, args ...any) {
	x.trial.Warnings = append(x.trial.Warnings, hide(x.opts.Redactor, fmt.Sprintf(format, args...)))
}

// recoverPanic turns a panic into an error of this trial alone. What comes after the panic goes on, so
// that the logs of what did happen are kept and the environment is ended.
func (x *execution) recoverPanic() {
	if p := recover(); p != nil {
		f := failf(result.InternalError, "rollout itself failed (%v): please report this, with the trial's error.txt", p)
		f.detail = string(debug.Stack())
		x.fail(f)
	}
}

// finish fills in what is known only at the end.
func (x *execution) finish() {
	end := x.opts.Now()
	x.trial.Timestamps.EndedAt = result.Stamp(end)
	x.trial.Durations.TotalSec = result.Seconds(end.Sub(x.started))
	x.trial.Cost = x.trial.Costs.Total()
}

func (x *execution) emit(e event.Event) {
	e.Time, e.Key = x.opts.Now().UTC(), &x.spec.Key
	e.Message = hide(x.opts.Redactor, e.Message)
	x.opts.Emit(e)
}

// recordRetry records an infrastructure failure after which something is tried again.
func (x *execution) recordRetry(f environment.Failure) {
	message := brief(f.Err, x.opts.Redactor)
	x.trial.Retries = append(x.trial.Retries, result.Retry{
		Operation: f.Operation, Attempt: f.Attempt, Message: message, At: result.Stamp(x.opts.Now()),
	})
	x.emit(event.Event{Kind: event.Retrying, Message: f.Operation + ": " + message, Delay: f.Delay})
}
