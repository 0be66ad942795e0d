package trial

import (
	"fmt"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/agent/presets"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/run/trial/failure"
)

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
		return failure.Newf(result.TaskInvalid, "the oracle agent needs %s: add it, or leave this task out for oracle", t.File(t.Files().Solution))
	case spec.Agent.Name == agent.Oracle && len(t.SolutionProblems()) > 0:
		return failure.Newf(result.TaskInvalid, "the oracle cannot run the task: %v", t.SolutionProblems()[0])
	}
	if why := Unfit(spec.Agent, t); why != "" {
		return failure.Newf(result.TaskInvalid, "%s", why)
	}
	return nil
}

// NothingForTests returns the reason why the tests of a task could only fail: the job makes them
// run in a fresh environment, and nothing of the agent's would be in it; nil if they can pass.
func NothingForTests(t *task.Task, job config.Job) *failure.Error {
	if steps := t.Steps(); len(steps) > 0 {
		for _, step := range steps {
			if f := NothingForTests(step, job); f != nil {
				return f
			}
		}
		return nil
	}
	if job.Verifier.Environment != config.VerifierFresh || t.Config.Verifier.Environment != nil || len(t.Config.Artifacts)+len(job.Artifacts) > 0 {
		return nil
	}
	return failure.Newf(result.TaskInvalid, "the job runs the tests in a fresh environment (verifier.environment), and nothing is carried over to it: "+
		"name the paths that the tests look at, such as verifier: {environment: fresh, artifacts: [/app]}, or artifacts in task.toml")
}

// tooLong reports whether the program of an agent's preset cannot take an instruction of size
// bytes, because it is one argument.
func tooLong(a agent.Agent, size int) bool {
	preset, _ := presets.Get(a.Preset)
	return size > presets.MaxArgument && preset.Argument && a.Execute == preset.Execute(a.Args) // not a script of the job
}

// instructionSize returns the size of the longest instruction that an agent gets for a task, in
// bytes; 0 if none can be read.
func instructionSize(t *task.Task) (longest int) {
	for _, step := range t.Steps() {
		longest = max(longest, instructionSize(step))
	}
	if len(t.Config.Steps) == 0 {
		text, _ := t.Instruction() // the trial reports the error
		longest = len(text)
	}
	return longest
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
