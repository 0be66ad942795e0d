package failure

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/excerpt"
	"github.com/org/rollout-action/internal/lib/redact"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/run/trial/timing"
)

// AbortError is the cause of a context that ends because Rollout itself failed, and not because of
// a cancel.
type AbortError struct{ Err error }

func (s *AbortError) Error() string { return s.Err.Error() }

func (s *AbortError) Unwrap() error { return s.Err }

// ErrOutOfTime is the cause of a context that ends because the job has used up its budget of time.
var ErrOutOfTime = errors.New("the job's budget of time is used up (budget.max_duration)")

// ErrOutOfMoney is the reason for cancelling a trial whose agent gets no more of its model because
// the job has used up its budget of money.
var ErrOutOfMoney = errors.New("the job's budget of money is used up (budget.max_cost_usd)")

// Cancelled returns the failure of a trial whose context has ended.
func Cancelled(ctx context.Context, phase event.Phase) *Error {
	if stop := (*AbortError)(nil); errors.As(context.Cause(ctx), &stop) {
		return Newf(result.InternalError, "rollout stopped all trials, this one during %s: %v", phaseName[phase], stop.Err)
	}
	if errors.Is(context.Cause(ctx), ErrOutOfTime) {
		return Newf(result.Cancelled, "%v, during %s", ErrOutOfTime, phaseName[phase])
	}
	return Newf(result.Cancelled, "the job was cancelled during %s", phaseName[phase])
}

var phaseName = map[event.Phase]string{
	event.EnvironmentSetup: "environment setup",
	event.AgentSetup:       "agent installation",
	event.AgentExecution:   "agent execution",
	event.Verifier:         "verification",
	event.Judging:          "judging",
	event.Collect:          "log collection",
	event.Teardown:         "teardown",
}

// Classify returns the failure for an error of a step: its type and a message that says how to fix
// it. The error's own type decides, never its text. The message is redacted. Source: specification,
// "Error Types".
func Classify(phase event.Phase, err error, limits timing.Timeouts, secrets *redact.Redactor) *Error {
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	var e environment.Error
	if wrapped := (*environment.Error)(nil); errors.As(err, &wrapped) {
		e = *wrapped
	} else {
		e.Err = err
	}
	f := timedOut(phase, err, limits)
	if fault := environment.MachineFault(err); fault != nil {
		f = Newf(result.InternalError, "this machine failed during %s: %s", phaseName[phase], Brief(err, secrets))
		if !strings.Contains(f.Message, fault.Error()) { // it names a remedy
			f.Message += ": " + fault.Error()
		}
		f.MachineFault = fault
	}
	if f == nil {
		f = &Error{Type: typeOf(phase, err)}
		f.Message = Brief(e.Err, secrets)
		if f.Type == result.EnvironmentBuildFailed {
			f.Message += lastLines(e.Output, secrets)
		}
		if way := cmp.Or(e.Hint, Remedies[e.Kind]); way != "" && !environment.ExceededLimits(err) {
			f.Message += " (" + way + ")"
		}
		switch f.Type {
		case result.EnvironmentLost:
			f.Message = "the environment was lost during " + phaseName[phase] + ": " + f.Message
		case exceeded[phase]:
			if environment.KindOf(err) == environment.KindLost {
				f.Message = "the environment ended with what ran in it, which exceeded its limits: " + f.Message
			}
		case result.InternalError:
			f.Message = "rollout could not continue during " + phaseName[phase] + ": " + f.Message
		}
	}
	if f.Detail = e.Error(); strings.Contains(f.Message, strings.Join(strings.Fields(Hide(secrets, e.Err.Error())), " ")) {
		f.Detail = e.Output // the message has the rest, which comes before it in error.txt
	}
	if e.Output != "" {
		f.Message += "; the end of its output is in " + result.ErrorFile
	}
	return f
}

// Unusable returns the failure of an agent that left an environment in which the tests cannot be
// started, for example without bash. Its own command could be started there.
func Unusable(err error, secrets *redact.Redactor) *Error {
	var e *environment.Error
	if errors.As(err, &e) {
		err = e.Err // without a hint at the image
	}
	return Newf(result.AgentExecutionFailed, "the agent left an environment in which the tests cannot be started: %s", Brief(err, secrets))
}

// CrowdedOut reports whether the tests may have failed because their processes could not be
// started.
func CrowdedOut(f *Error, err error) bool {
	return f.Type == result.VerifierFailed || f.Type == result.VerifierTimeout || errors.Is(err, environment.ErrNotBegun)
}

// Remedies holds the default remedies for failures, used if the provider has no better one.
var Remedies = map[environment.Kind]string{
	environment.KindUnavailable: "see that the provider works, and run the job again",
	environment.KindBuild:       "correct the files in environment/",
	environment.KindPull:        "correct environment.docker_image in task.toml",
	environment.KindResources:   "lower cpus, memory or storage in task.toml, or override them in the job",
	environment.KindStart:       "the image must have bash, and its ENTRYPOINT must run the command that it is given",
	environment.KindLost:        "run the job again; if it happens again, the provider's own log knows why",
	"":                          "run the job again; if it happens again, please report this, with the trial's " + result.ErrorFile,
}

// lastLines returns the last lines of a failed build's output, which nearly always contain the
// reason: ", after it printed: …", or "". The very last line comes first, because messages are cut
// at the end. It redacts the lines before it cuts them.
func lastLines(output string, secrets *redact.Redactor) string {
	const before, most, mostBefore = 2, 300, 100
	var printed []string
	for line := range strings.Lines(Hide(secrets, output)) {
		if words := strings.Join(strings.Fields(line), " "); words != "" {
			printed = append(printed, words)
		}
	}
	if len(printed) == 0 {
		return ""
	}
	last := len(printed) - 1
	text := ", after it printed: " + excerpt.Middle(printed[last], most)
	var context []string
	for _, line := range printed[max(0, last-before):last] {
		context = append(context, untrusted.Cut(line, mostBefore))
	}
	if len(context) > 0 {
		text += " (before that: " + strings.Join(context, " | ") + ")"
	}
	return text
}

// typeOf returns the type for the kind of an environment's failure. Lost environments have the same
// type in all phases, because the processes in them cannot be judged, unless they have ended the
// environment themselves.
func typeOf(phase event.Phase, err error) result.ErrorType {
	if kind := exceeded[phase]; kind != "" && environment.KindOf(err) == environment.KindLost && environment.ExceededLimits(err) {
		return kind
	}
	if errors.Is(err, environment.ErrVolume) {
		return result.TaskInvalid
	}
	switch environment.KindOf(err) {
	case environment.KindBuild:
		return result.EnvironmentBuildFailed
	case environment.KindPull:
		return result.EnvironmentImagePullFailed
	case environment.KindResources:
		return result.EnvironmentResourceAllocationFailed
	case environment.KindStart:
		return result.EnvironmentStartFailed
	case environment.KindTeardown:
		return result.EnvironmentTeardownFailed
	case environment.KindLost:
		return result.EnvironmentLost
	case environment.KindUnavailable:
		if phase == event.EnvironmentSetup {
			return result.EnvironmentStartFailed
		}
		return result.EnvironmentLost // neither the agent nor the verifier caused it
	case environment.KindCopy, environment.KindExec:
		return phaseFailed[phase]
	}
	return result.InternalError
}

// phaseFailed holds the types of failures that depend on their phase alone.
var phaseFailed = map[event.Phase]result.ErrorType{
	event.EnvironmentSetup: result.EnvironmentStartFailed,
	event.AgentSetup:       result.AgentInstallFailed,
	event.AgentExecution:   result.AgentExecutionFailed,
	event.Verifier:         result.VerifierFailed,
	event.Judging:          result.JudgeFailed,
	event.Collect:          result.InternalError,
	event.Teardown:         result.EnvironmentTeardownFailed,
}

// exceeded holds the types of failures of phases whose processes exceeded the environment's limits
// and so ended it.
var exceeded = map[event.Phase]result.ErrorType{
	event.AgentSetup:     result.AgentInstallFailed,
	event.AgentExecution: result.AgentExecutionFailed,
	event.Verifier:       result.VerifierFailed,
	event.Judging:        result.JudgeFailed,
	event.Collect:        result.AgentExecutionFailed,
}

// StorageLag is the delay after which an environment may end because its files exceed their limit.
// Source: the kubelet looks every ten seconds, and takes longer with many pods.
const StorageLag = time.Minute

// timedOut returns the failure of a step that took too long, or nil.
func timedOut(phase event.Phase, err error, limits timing.Timeouts) *Error {
	if !errors.Is(err, environment.ErrTimeout) {
		return nil
	}
	late := func(kind result.ErrorType, what string, limit time.Duration, key string) *Error {
		seconds := strconv.FormatFloat(limit.Seconds(), 'f', -1, 64)
		return Newf(kind, "%s exceeded its timeout of %s seconds: raise %s, or timeout_multiplier in the job", what, seconds, key)
	}
	const build = "environment.build_timeout_sec in task.toml"
	switch {
	case phase == event.EnvironmentSetup && environment.KindOf(err) == environment.KindPull:
		return late(result.EnvironmentImagePullFailed, "pulling the image", limits.Build, build)
	case phase == event.EnvironmentSetup:
		return late(result.EnvironmentBuildTimeout, "building the image", limits.Build, build)
	case phase == event.AgentSetup:
		return late(result.AgentInstallTimeout, "installing the agent", limits.Install, "agent.install_timeout_sec in task.toml")
	case phase == event.AgentExecution:
		return late(result.AgentExecutionTimeout, "the agent", limits.Execute, "agent.timeout_sec in task.toml")
	case phase == event.Verifier:
		return late(result.VerifierTimeout, "tests/test.sh", limits.Verify, limits.VerifyKey)
	}
	return nil
}
