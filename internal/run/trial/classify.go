package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/agent/presets"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/excerpt"
	"github.com/org/rollout-action/internal/lib/redact"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/run/trial/failure"
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

// cancelled returns the failure of a trial whose context has ended.
func cancelled(ctx context.Context, phase event.Phase) *failure.Error {
	if stop := (*AbortError)(nil); errors.As(context.Cause(ctx), &stop) {
		return failure.Newf(result.InternalError, "rollout stopped all trials, this one during %s: %v", phaseName[phase], stop.Err)
	}
	if errors.Is(context.Cause(ctx), ErrOutOfTime) {
		return failure.Newf(result.Cancelled, "%v, during %s", ErrOutOfTime, phaseName[phase])
	}
	return failure.Newf(result.Cancelled, "the job was cancelled during %s", phaseName[phase])
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

// taskError returns the reason why no environment is made for a trial, or nil.
func taskError(spec Spec) *failure.Error {
	t := spec.Task
	switch {
	case t.Missing:
		hint := ""
		if t.Nearest != "" {
			hint = fmt.Sprintf("did you mean %s? ", t.Nearest)
		}
		return failure.Newf(result.TaskNotFound, "there is no task at %s: %scorrect the path, or remove it from the job", t.Place(), hint)
	case t.Err() != nil:
		f := failure.Newf(result.TaskInvalid, "the task is invalid: %v", t.Problems.Errors()[0])
		if more := len(t.Problems.Errors()) - 1; more > 0 {
			f.Message += fmt.Sprintf(" and %d more (see %s, or run rollout validate)", more, result.ErrorFile)
		}
		f.Detail = t.Err().Error()
		return f
	case spec.Agent.Name == agent.Oracle && !t.HasSolution():
		return failure.Newf(result.TaskInvalid, "the oracle agent needs %s: add it, or leave this task out for oracle", t.File("solution/solve.sh"))
	case spec.Agent.Name == agent.Oracle && len(t.SolutionProblems()) > 0:
		return failure.Newf(result.TaskInvalid, "the oracle cannot run the task: %v", t.SolutionProblems()[0])
	}
	if why := Unfit(spec.Agent, t); why != "" {
		return failure.Newf(result.TaskInvalid, "%s", why)
	}
	return nil
}

// tooLong reports whether the program of an agent's preset cannot take an instruction of size
// bytes, because it is one argument.
func tooLong(a agent.Agent, size int) bool {
	preset, _ := presets.Get(a.Preset)
	return size > presets.MaxArgument && preset.Argument && a.Execute == preset.Execute(a.Args) // not a script of the job
}

// instructionSize returns the size of the instruction that an agent gets for a task, in bytes; 0 if
// it cannot be read.
func instructionSize(t *task.Task) int {
	text, _ := t.Instruction() // the trial reports the error
	return len(text)
}

// Unfit returns the reason why an agent cannot run a valid task: the task offers agents a feature
// that this one does not support; "" if it can. The oracle and nop need no features.
func Unfit(a agent.Agent, t *task.Task) string {
	env := t.Config.Environment
	preset, known := presets.Get(a.Preset)
	who := fmt.Sprintf("the agent %q is a script", a.Name)
	if known {
		who = fmt.Sprintf("the agent %q is the preset %s", a.Name, preset.Name)
	}
	const hint = "choose a preset that does, or leave the task out: exclude_tasks in the job"
	switch {
	case a.Reserved():
	case len(env.MCPServers) > 0 && !preset.MCP:
		return fmt.Sprintf("the task has MCP servers (environment.mcp_servers), and %s, which takes none: %s", who, hint)
	case preset.Argument && tooLong(a, instructionSize(t)):
		return fmt.Sprintf("the instruction has %d bytes, and %s, whose program takes it as one argument of at most %d bytes: "+
			"shorten instruction.md, choose another preset, or leave the task out: exclude_tasks in the job", instructionSize(t), who, presets.MaxArgument)
	case env.SkillsDir != "" && preset.Skills == "":
		return fmt.Sprintf("the task has skills (environment.skills_dir), and %s, which takes none: %s", who, hint)
	}
	return ""
}

// classify returns the failure for an error of a step: its type and a message that says how to fix
// it. The error's own type decides, never its text. The message is redacted. Source: specification,
// "Error Types".
func classify(phase event.Phase, err error, limits Timeouts, secrets *redact.Redactor) *failure.Error {
	var known *failure.Error
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
		f = failure.Newf(result.InternalError, "this machine failed during %s: %s", phaseName[phase], failure.Brief(err, secrets))
		if !strings.Contains(f.Message, fault.Error()) { // it names a remedy
			f.Message += ": " + fault.Error()
		}
		f.MachineFault = fault
	}
	if f == nil {
		f = &failure.Error{Type: typeOf(phase, err)}
		f.Message = failure.Brief(e.Err, secrets)
		if f.Type == result.EnvironmentBuildFailed {
			f.Message += lastLines(e.Output, secrets)
		}
		if way := cmp.Or(e.Hint, remedies[e.Kind]); way != "" && !environment.ExceededLimits(err) {
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
	if f.Detail = e.Error(); strings.Contains(f.Message, strings.Join(strings.Fields(failure.Hide(secrets, e.Err.Error())), " ")) {
		f.Detail = e.Output // the message has the rest, which comes before it in error.txt
	}
	if e.Output != "" {
		f.Message += "; the end of its output is in " + result.ErrorFile
	}
	return f
}

// unusable returns the failure of an agent that left an environment in which the tests cannot be
// started, for example without bash. Its own command could be started there.
func unusable(err error, secrets *redact.Redactor) *failure.Error {
	var e *environment.Error
	if errors.As(err, &e) {
		err = e.Err // without a hint at the image
	}
	return failure.Newf(result.AgentExecutionFailed, "the agent left an environment in which the tests cannot be started: %s", failure.Brief(err, secrets))
}

// crowdedOut reports whether the tests may have failed because their processes could not be
// started.
func crowdedOut(f *failure.Error, err error) bool {
	return f.Type == result.VerifierFailed || f.Type == result.VerifierTimeout || errors.Is(err, environment.ErrNotBegun)
}

// remedies holds the default remedies for failures, used if the provider has no better one.
var remedies = map[environment.Kind]string{
	environment.KindUnavailable: "see that the provider works, and run the job again",
	environment.KindBuild:       "correct what is in environment/",
	environment.KindPull:        "correct environment.docker_image in task.toml",
	environment.KindResources:   "lower cpus, memory or storage in task.toml, or override them in the job",
	environment.KindStart:       "the image must have bash, and its ENTRYPOINT must run what it is given",
	environment.KindLost:        "run the job again; if it happens again, the provider's own log knows why",
	"":                          "run the job again; if it happens again, please report this, with the trial's " + result.ErrorFile,
}

// lastLines returns the last lines of a failed build's output, which nearly always contain the
// reason: ", after it printed: …", or "". The very last line comes first, because messages are cut
// at the end. It redacts the lines before it cuts them.
func lastLines(output string, secrets *redact.Redactor) string {
	const before, most, mostBefore = 2, 300, 100
	var printed []string
	for line := range strings.Lines(failure.Hide(secrets, output)) {
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

// storageLag is the delay after which an environment may end because its files exceed their limit.
// Source: the kubelet looks every ten seconds, and takes longer with many pods.
const storageLag = time.Minute

// timedOut returns the failure of a step that took too long, or nil.
func timedOut(phase event.Phase, err error, limits Timeouts) *failure.Error {
	if !errors.Is(err, environment.ErrTimeout) {
		return nil
	}
	late := func(kind result.ErrorType, what string, limit time.Duration, key string) *failure.Error {
		seconds := strconv.FormatFloat(limit.Seconds(), 'f', -1, 64)
		return failure.Newf(kind, "%s exceeded its timeout of %s seconds: raise %s, or timeout_multiplier in the job", what, seconds, key)
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
