package record

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

// Record collects the data of a trial while it is executed: its result, its files in Dir, and its
// events. It redacts all texts.
type Record struct {
	Trial        result.Trial
	Detail       string // more about the error than fits its message
	MachineFault error  // this machine's failure that caused the trial's error; nil if something else did
	Spent        bool   // the environment has ended because its processes exceeded its limits

	Began     time.Time // when the trial was first executed
	Dir       string    // of the trial's files
	MaxStream int64     // bytes of a stream's file
	Secrets   *redact.Redactor
	Sink      event.Sink
	Now       func() time.Time
	saying    atomic.Bool // the last call of Progress reported something
}

// NoError reports whether no failure is recorded.
func (r *Record) NoError() bool { return r.Trial.Error == nil }

// AgentFailed reports whether the agent ran and failed.
func (r *Record) AgentFailed() bool { return failure.OfAgent(r.Trial.Error) }

// LostEnvironment reports whether the environment was lost, or ended because its processes exceeded
// its limits.
func (r *Record) LostEnvironment() bool {
	return r.Spent || r.Trial.Error != nil && r.Trial.Error.Type == result.EnvironmentLost
}

// Fail records a failure. The first one is the trial's error, later ones become warnings, unless
// the environment was lost before the verifier could judge an agent that had failed.
func (r *Record) Fail(f *failure.Error) {
	f.Message = strings.Join(strings.Fields(failure.Hide(r.Secrets, f.Message)), " ") // one line
	if before := r.Trial.Error; before != nil && r.AgentFailed() && (f.Type == result.EnvironmentLost || f.Type.Fault() == result.FaultJudge) {
		// The verifier or a judge could not judge the agent's failure, so nothing is known about
		// the agent.
		r.Trial.Warnings = append(r.Trial.Warnings, fmt.Sprintf("%s: %s", before.Type, before.Message))
		r.Trial.Error = nil
	}
	if r.Trial.Error != nil {
		r.Trial.Warnings = append(r.Trial.Warnings, fmt.Sprintf("%s: %s", f.Type, f.Message))
		return
	}
	r.Trial.Error = &result.Error{Type: f.Type, Message: f.Message}
	r.MachineFault = f.MachineFault
	r.Detail = failure.Hide(r.Secrets, f.Detail)
}

// Warn adds a warning to the result.
func (r *Record) Warn(format string, args ...any) {
	r.Trial.Warnings = append(r.Trial.Warnings, failure.Hide(r.Secrets, fmt.Sprintf(format, args...)))
}

// RecoverPanic turns a panic into an error of this trial alone. The trial continues after the step
// that panicked, so that its logs are kept and its environment is ended.
func (r *Record) RecoverPanic() {
	if p := recover(); p != nil {
		f := failure.Newf(result.InternalError, "rollout itself failed (%v): please report this, with the trial's %s", p, result.ErrorFile)
		f.Detail = string(debug.Stack())
		r.Fail(f)
	}
}

// Finish records the end of the trial, its duration and its cost.
func (r *Record) Finish() {
	end := r.Now()
	r.Trial.Timestamps.EndedAt = result.Stamp(end)
	r.Trial.Durations.TotalSec = result.Seconds(end.Sub(r.Began))
	result.SumCosts(&r.Trial)
}

// Emit sends an event of this trial.
func (r *Record) Emit(e event.Event) {
	e.Time, e.Key = r.Now().UTC(), &r.Trial.Key
	e.Message = failure.Hide(r.Secrets, e.Message)
	r.Sink(e)
}

// Progress reports the operation that the trial waits for; "" ends it. Several goroutines may call
// it.
func (r *Record) Progress(line string) {
	if said := r.saying.Swap(line != ""); said || line != "" {
		r.Emit(event.Event{Kind: event.Progress, Message: line})
	}
}

// RecordRetry records an infrastructure failure that is followed by a retry.
func (r *Record) RecordRetry(f environment.Failure) {
	message := failure.Brief(f.Err, r.Secrets)
	r.Trial.Retries = append(r.Trial.Retries, result.Retry{
		Operation: f.Operation, Attempt: f.Attempt, Message: message, At: result.Stamp(r.Now()),
	})
	r.Emit(event.Event{Kind: event.Retrying, Message: f.Operation + ": " + message, Delay: f.Delay})
}

// Capture opens a file of the trial for the output of a command.
func (r *Record) Capture(name string) (*Stream, error) {
	c, err := openStream(r.Dir, name, r.MaxStream, r.Secrets)
	if err != nil {
		return nil, fmt.Errorf("open a file for the output: %w", environment.MarkMachineError(err))
	}
	return c, nil
}

// Release closes a stream and records the bytes that it left out.
func (r *Record) Release(c *Stream) {
	if omitted := c.close(); omitted != "" {
		r.Omit(c.path, omitted)
	}
}

// Omit records a file, or a part of one, that was left out.
func (r *Record) Omit(path, reason string) {
	r.Trial.Omitted = append(r.Trial.Omitted, result.Omission{Path: failure.Hide(r.Secrets, path), Reason: failure.Hide(r.Secrets, reason)})
}

// Rename records a file that was kept under another name.
func (r *Record) Rename(from, to string) {
	r.Trial.Renamed = append(r.Trial.Renamed, result.Rename{From: r.Secrets.String(from), To: r.Secrets.String(to)})
}
