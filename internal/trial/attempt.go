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

// attempt is one go at a trial, from image to teardown.
type attempt struct {
	*Runner
	spec     Spec
	rules    task.Rules // of the task's format
	dir      string
	timeouts Timeouts
	networks task.Networks
	network  environment.Network // what env may reach now
	refused  refused
	started  time.Time

	env    environment.Environment // nil until it is made
	calm   func() (ended bool)     // see hurry
	ended  bool                    // env was stopped or destroyed because it did not answer a cancel
	trial  result.Trial
	detail string // more about the error than fits its message

	// graces are over when their time after the cancel is. To be called only after that.
	graces func() map[time.Duration]<-chan struct{}

	making *layer // that others may wait for: to be settled, whatever happens
	layer  *layer // that the environment stands on, with the agent installed

	agentBegan bool
	tested     bool  // the test script ran to its end
	testCode   int   // and ended with this
	startOver  bool  // the environment or its image was lost, and nothing of the agent's with it
	lost       error // why
	oomKills   int   // environment.Environment.OOMKills when it was last asked
	machine    error // this machine's failure that the trial's error is; nil if it is another one
}

// step is one phase on the way to a verdict.
type step struct {
	phase  event.Phase
	wanted func(*attempt) bool
	do     func(*attempt, context.Context) error
	span   func(*attempt) span
}

// span is where a step's times are written.
type span struct {
	began, ended **time.Time
	seconds      **float64
}

// steps, in order. A step after a failure runs only if it wants to.
// Source: specification, "Container environment" and "Error handling behavior".
var steps = []step{
	{event.EnvironmentSetup, (*attempt).noError, (*attempt).setup, func(a *attempt) span {
		t := &a.trial.Timestamps
		return span{&t.EnvironmentSetupStartedAt, &t.EnvironmentSetupEndedAt, &a.trial.Durations.EnvironmentSetupSec}
	}},
	{event.AgentSetup, (*attempt).wantsInstall, (*attempt).install, func(a *attempt) span {
		t := &a.trial.Timestamps
		return span{&t.AgentSetupStartedAt, &t.AgentSetupEndedAt, &a.trial.Durations.AgentSetupSec}
	}},
	{event.AgentExecution, (*attempt).wantsExecute, (*attempt).execute, func(a *attempt) span {
		t := &a.trial.Timestamps
		return span{&t.AgentExecutionStartedAt, &t.AgentExecutionEndedAt, &a.trial.Durations.AgentExecutionSec}
	}},
	{event.Verifier, (*attempt).wantsVerify, (*attempt).verify, func(a *attempt) span {
		t := &a.trial.Timestamps
		return span{&t.VerifierStartedAt, &t.VerifierEndedAt, &a.trial.Durations.VerifierSec}
	}},
}

// run takes the attempt through its steps. Collecting the logs and tearing down happen whatever
// went wrong before, a panic included.
func (a *attempt) run(ctx context.Context) {
	defer a.finish()
	defer a.abandonLayer()
	if err := taskError(a.spec); err != nil {
		a.fail(err)
		return
	}
	counting, stop := context.WithCancel(a.opts.Hard)
	defer stop()
	a.graces = sync.OnceValue(func() map[time.Duration]<-chan struct{} {
		graces := map[time.Duration]<-chan struct{}{}
		for _, grace := range []time.Duration{stuckGrace, collectGrace, teardownGrace} {
			graces[grace] = awake.After(counting, grace)
		}
		return graces
	})
	defer context.AfterFunc(ctx, func() { a.graces() })()
	ctx = environment.WithRetryNotify(ctx, a.noteRetry)
	for _, s := range steps {
		if s.phase == event.Verifier {
			a.keepArtifacts(ctx)
		}
		if s.wanted(a) {
			a.step(ctx, s)
		}
	}
	if a.env != nil {
		a.ended = a.calm()
	}
	a.collect(ctx)
	a.teardown(ctx)
	a.suspectFormat()
	a.noteRefused()
}

func (a *attempt) step(ctx context.Context, s step) {
	defer a.recovered()
	if ctx.Err() != nil {
		a.fail(cancelled(ctx, s.phase))
		return
	}
	a.emit(event.Event{Kind: event.PhaseStarted, Phase: s.phase})
	at, begin := s.span(a), a.opts.Now()
	began := result.Stamp(begin)
	*at.began = &began
	defer func() { // also when the step panics
		end := a.opts.Now()
		ended, seconds := result.Stamp(end), result.Seconds(end.Sub(begin))
		*at.ended, *at.seconds = &ended, &seconds
	}()
	err := s.do(a, ctx)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		a.fail(cancelled(ctx, s.phase))
	default:
		f := classify(s.phase, err, a.timeouts, a.opts.Redactor)
		a.noteMemory(f, err)
		a.fail(f)
		a.startOver = !a.agentBegan && (f.Type == result.EnvironmentLost || errors.Is(err, environment.ErrNoImage) || f.machine != nil)
		a.lost = err
	}
}

func (a *attempt) noError() bool { return a.trial.Error == nil }

func (a *attempt) wantsInstall() bool {
	return a.noError() && a.spec.Agent.Install != "" && a.layer == nil
}

func (a *attempt) wantsExecute() bool { return a.noError() && a.spec.Agent.Name != agent.Nop }

// agentFailed reports whether the agent ran, and did not end well.
func (a *attempt) agentFailed() bool {
	e := a.trial.Error
	return e != nil && (e.Type == result.AgentExecutionFailed || e.Type == result.AgentExecutionTimeout)
}

func (a *attempt) wantsVerify() bool {
	if a.opts.Job.Verifier.Disable {
		return false
	}
	if a.noError() {
		return true
	}
	return a.agentFailed() && (a.rules.VerifyAfterFailure || a.opts.Job.Verifier.OnAgentFailure == config.RunVerifier)
}

// fail records a failure. The first one is the trial's error, later ones become warnings, unless the environment was lost
// before the verifier could judge an agent that had failed.
func (a *attempt) fail(f *failure) {
	f.Message = strings.Join(strings.Fields(hide(a.opts.Redactor, f.Message)), " ") // one line
	if before := a.trial.Error; before != nil && a.agentFailed() && f.Type == result.EnvironmentLost {
		// The agent's failure was to be judged, and never was: that is nobody's word on the agent.
		a.trial.Warnings = append(a.trial.Warnings, fmt.Sprintf("%s: %s", before.Type, before.Message))
		a.trial.Error = nil
	}
	if a.trial.Error != nil {
		a.trial.Warnings = append(a.trial.Warnings, fmt.Sprintf("%s: %s", f.Type, f.Message))
		return
	}
	a.trial.Error = &result.Error{Type: f.Type, Message: f.Message}
	a.machine = f.machine
	a.detail = hide(a.opts.Redactor, f.detail)
}

func (a *attempt) warn(format string, args ...any) {
	a.trial.Warnings = append(a.trial.Warnings, hide(a.opts.Redactor, fmt.Sprintf(format, args...)))
}

// recovered turns a panic into an error of this trial alone. What comes after the panic goes on, so
// that the logs of what did happen are kept and the environment is ended.
func (a *attempt) recovered() {
	if p := recover(); p != nil {
		f := failf(result.InternalError, "rollout itself failed (%v): please report this, with the trial's error.txt", p)
		f.detail = string(debug.Stack())
		a.fail(f)
	}
}

// finish fills in what is known only at the end.
func (a *attempt) finish() {
	end := a.opts.Now()
	a.trial.Timestamps.EndedAt = result.Stamp(end)
	a.trial.Durations.TotalSec = result.Seconds(end.Sub(a.started))
	a.trial.Cost = a.trial.Costs.Total()
}

func (a *attempt) emit(e event.Event) {
	e.Time, e.Key = a.opts.Now().UTC(), &a.spec.Key
	e.Message = hide(a.opts.Redactor, e.Message)
	a.opts.Emit(e)
}

// noteRetry keeps an infrastructure failure that is tried again.
func (a *attempt) noteRetry(f environment.Failure) {
	message := brief(f.Err, a.opts.Redactor)
	a.trial.Retries = append(a.trial.Retries, result.Retry{
		Operation: f.Operation, Attempt: f.Attempt, Message: message, At: result.Stamp(a.opts.Now()),
	})
	a.emit(event.Event{Kind: event.Retrying, Message: f.Operation + ": " + message, Delay: f.Delay})
}
