package trial

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/org/rollout-action/internal/agent"
	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/internal/event"
	"github.com/org/rollout-action/internal/result"
)

// failure is a trial's error on its way into the result. It is also a Go error, so that a step which
// knows its verdict returns it.
type failure struct {
	Type    result.ErrorType
	Message string
	detail  string // for error.txt
}

func (f *failure) Error() string { return f.Message }

func failf(kind result.ErrorType, format string, args ...any) *failure {
	return &failure{Type: kind, Message: fmt.Sprintf(format, args...)}
}

func cancelled(phase event.Phase) *failure {
	return failf(result.Cancelled, "the job was cancelled during %s", phaseName[phase])
}

var phaseName = map[event.Phase]string{
	event.EnvironmentSetup: "environment setup",
	event.AgentSetup:       "agent installation",
	event.AgentExecution:   "agent execution",
	event.Verifier:         "verification",
	event.Collect:          "log collection",
	event.Teardown:         "teardown",
}

// taskError is what keeps a trial from being started at all: no environment is made for it.
func taskError(spec Spec) *failure {
	t := spec.Task
	switch {
	case t.Missing:
		return failf(result.TaskNotFound, "there is no task at %s: correct the path, or remove it from the job", t.Dir)
	case t.Err() != nil:
		f := failf(result.TaskInvalid, "the task is invalid: %v", t.Problems.Errors()[0])
		if more := len(t.Problems.Errors()) - 1; more > 0 {
			f.Message += fmt.Sprintf(" and %d more problems (see error.txt, or run rollout validate)", more)
		}
		f.detail = t.Err().Error()
		return f
	case spec.Agent.Name == agent.Oracle && !t.HasSolution():
		return failf(result.TaskInvalid, "the oracle agent needs %s/solution/solve.sh: add it, or leave this task out for oracle", t.Dir)
	}
	return nil
}

// classify gives an error of a step its type and a message that says what to do. The error's own type
// decides, never its text. Source: specification, "Error Types".
func classify(phase event.Phase, err error, limits Timeouts) *failure {
	var known *failure
	if errors.As(err, &known) {
		return known
	}
	f := &failure{Type: typeOf(phase, err), Message: err.Error()}
	if errors.Is(err, environment.ErrTimeout) {
		f = timedOut(phase, err, limits)
	}
	var e *environment.Error
	if errors.As(err, &e) {
		f.detail = e.Error()
		if f.Type != timeoutType(phase, err) {
			f.Message = e.Err.Error()
			if e.Hint != "" {
				f.Message += " (" + e.Hint + ")"
			}
		}
		if e.Output != "" {
			f.Message += "; its last output is in error.txt"
		}
	}
	if f.Type == result.EnvironmentLost {
		f.Message = fmt.Sprintf("the environment was lost during %s: %s", phaseName[phase], f.Message)
	}
	return f
}

// typeOf maps the kind of an environment's failure. Lost environments have one type wherever it
// happens: what ran in them cannot be judged.
func typeOf(phase event.Phase, err error) result.ErrorType {
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
		return result.EnvironmentLost // and not the agent's or the verifier's doing
	case environment.KindCopy, environment.KindExec:
		return phaseFailed[phase]
	}
	return result.InternalError
}

// phaseFailed is the type of a failure that only its phase tells.
var phaseFailed = map[event.Phase]result.ErrorType{
	event.EnvironmentSetup: result.EnvironmentStartFailed,
	event.AgentSetup:       result.AgentInstallFailed,
	event.AgentExecution:   result.AgentExecutionFailed,
	event.Verifier:         result.VerifierFailed,
	event.Collect:          result.InternalError,
	event.Teardown:         result.EnvironmentTeardownFailed,
}

func timeoutType(phase event.Phase, err error) result.ErrorType {
	if !errors.Is(err, environment.ErrTimeout) {
		return ""
	}
	switch phase {
	case event.EnvironmentSetup:
		if environment.KindOf(err) == environment.KindPull {
			return result.EnvironmentImagePullFailed
		}
		return result.EnvironmentBuildTimeout
	case event.AgentSetup:
		return result.AgentInstallTimeout
	case event.AgentExecution:
		return result.AgentExecutionTimeout
	case event.Verifier:
		return result.VerifierTimeout
	}
	return typeOf(phase, err)
}

func timedOut(phase event.Phase, err error, limits Timeouts) *failure {
	kind := timeoutType(phase, err)
	what := map[result.ErrorType]struct {
		name, key string
		limit     time.Duration
	}{
		result.EnvironmentBuildTimeout:    {"the image's build", "environment.build_timeout_sec in task.toml", limits.Build},
		result.EnvironmentImagePullFailed: {"the image's pull", "environment.build_timeout_sec in task.toml", limits.Build},
		result.AgentInstallTimeout:        {"agent installation", "agent.install_timeout_sec in task.toml", limits.Install},
		result.AgentExecutionTimeout:      {"agent execution", "agent.timeout_sec in task.toml", limits.Execute},
		result.VerifierTimeout:            {"tests/test.sh", limits.VerifyKey, limits.Verify},
	}[kind]
	seconds := strconv.FormatFloat(what.limit.Seconds(), 'f', -1, 64)
	return failf(kind, "%s exceeded its timeout of %s seconds: raise %s, or timeout_multiplier in the job", what.name, seconds, what.key)
}
