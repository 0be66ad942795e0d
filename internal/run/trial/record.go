package trial

import (
	"fmt"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/redact"
	"github.com/org/rollout-action/internal/run/trial/failure"
)

// record collects the data of a trial while it is executed: its result, its files in dir, and its
// events. It redacts all texts.
type record struct {
	trial        result.Trial
	detail       string // more about the error than fits its message
	machineFault error  // this machine's failure that caused the trial's error; nil if something else did
	spent        bool   // the environment has ended because its processes exceeded its limits

	began     time.Time // when the trial was first executed
	dir       string    // of the trial's files
	maxStream int64     // bytes of a stream's file
	secrets   *redact.Redactor
	sink      event.Sink
	now       func() time.Time
	saying    atomic.Bool // the last call of progress reported something
}

func (r *record) noError() bool { return r.trial.Error == nil }

// agentFailed reports whether the agent ran and failed.
func (r *record) agentFailed() bool { return failure.OfAgent(r.trial.Error) }

func (r *record) lostEnvironment() bool {
	return r.spent || r.trial.Error != nil && r.trial.Error.Type == result.EnvironmentLost
}

// fail records a failure. The first one is the trial's error, later ones become warnings, unless
// the environment was lost before the verifier could judge an agent that had failed.
func (r *record) fail(f *failure.Error) {
	f.Message = strings.Join(strings.Fields(failure.Hide(r.secrets, f.Message)), " ") // one line
	if before := r.trial.Error; before != nil && r.agentFailed() && (f.Type == result.EnvironmentLost || f.Type.Fault() == result.FaultJudge) {
		// The verifier or a judge could not judge the agent's failure, so nothing is known about
		// the agent.
		r.trial.Warnings = append(r.trial.Warnings, fmt.Sprintf("%s: %s", before.Type, before.Message))
		r.trial.Error = nil
	}
	if r.trial.Error != nil {
		r.trial.Warnings = append(r.trial.Warnings, fmt.Sprintf("%s: %s", f.Type, f.Message))
		return
	}
	r.trial.Error = &result.Error{Type: f.Type, Message: f.Message}
	r.machineFault = f.MachineFault
	r.detail = failure.Hide(r.secrets, f.Detail)
}

func (r *record) warn(format string, args ...any) {
	r.trial.Warnings = append(r.trial.Warnings, failure.Hide(r.secrets, fmt.Sprintf(format, args...)))
}

// recoverPanic turns a panic into an error of this trial alone. The trial continues after the step
// that panicked, so that its logs are kept and its environment is ended.
func (r *record) recoverPanic() {
	if p := recover(); p != nil {
		f := failure.Newf(result.InternalError, "rollout itself failed (%v): please report this, with the trial's %s", p, result.ErrorFile)
		f.Detail = string(debug.Stack())
		r.fail(f)
	}
}

// finish records the end of the trial, its duration and its cost.
func (r *record) finish() {
	end := r.now()
	r.trial.Timestamps.EndedAt = result.Stamp(end)
	r.trial.Durations.TotalSec = result.Seconds(end.Sub(r.began))
	result.SumCosts(&r.trial)
}

// emit sends an event of this trial.
func (r *record) emit(e event.Event) {
	e.Time, e.Key = r.now().UTC(), &r.trial.Key
	e.Message = failure.Hide(r.secrets, e.Message)
	r.sink(e)
}

// progress reports the operation that the trial waits for; "" ends it. Several goroutines may call
// it.
func (r *record) progress(line string) {
	if said := r.saying.Swap(line != ""); said || line != "" {
		r.emit(event.Event{Kind: event.Progress, Message: line})
	}
}

// recordRetry records an infrastructure failure that is followed by a retry.
func (r *record) recordRetry(f environment.Failure) {
	message := failure.Brief(f.Err, r.secrets)
	r.trial.Retries = append(r.trial.Retries, result.Retry{
		Operation: f.Operation, Attempt: f.Attempt, Message: message, At: result.Stamp(r.now()),
	})
	r.emit(event.Event{Kind: event.Retrying, Message: f.Operation + ": " + message, Delay: f.Delay})
}

// capture opens a file of the trial for the output of a command.
func (r *record) capture(name string) (*capture, error) {
	c, err := openCapture(r.dir, name, r.maxStream, r.secrets)
	if err != nil {
		return nil, fmt.Errorf("open a file for the output: %w", environment.MarkMachineError(err))
	}
	return c, nil
}

// release closes a capture and records the bytes that it left out.
func (r *record) release(c *capture) {
	if omitted := c.close(); omitted != "" {
		r.omit(c.path, omitted)
	}
}

func (r *record) omit(path, reason string) {
	r.trial.Omitted = append(r.trial.Omitted, result.Omission{Path: failure.Hide(r.secrets, path), Reason: failure.Hide(r.secrets, reason)})
}

func (r *record) rename(from, to string) {
	r.trial.Renamed = append(r.trial.Renamed, result.Rename{From: r.secrets.String(from), To: r.secrets.String(to)})
}
