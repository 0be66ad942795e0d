package trial

import (
	"context"
	"io/fs"
	"slices"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task/testoutput"
	"github.com/org/rollout-action/internal/lib/memfs"
	"github.com/org/rollout-action/internal/run/trial/artifacts"
	"github.com/org/rollout-action/internal/run/trial/failure"
	"github.com/org/rollout-action/internal/run/trial/timing"
)

// execution is one execution of a trial, from image to teardown. A trial whose environment is lost
// before the agent begins is executed again.
type execution struct {
	agentRun
	// untouchable is the reason why judges that need the other processes to be ended cannot work in
	// the environment any more; nil: they can.
	untouchable error
	tests       apart
	// output is what the tests printed, if a parser reads the reward from it.
	output testoutput.Tail
	// artifactsKept is set once keepArtifacts has run.
	artifactsKept bool
	judged        bool     // of a step: its trial has judges
	alsoKept      []string // of a step: the artifacts that judges of its trial read
	changes       string   // the files that the agent has changed, for judges; "": not recorded, or there are no judges
}

// run runs the trial's steps, unless the task is invalid.
func (x *execution) run(ctx context.Context, steps []step) {
	err := taskError(x.spec)
	if err == nil {
		err = NothingForTests(x.spec.Task, x.job)
	}
	if err != nil {
		x.Fail(err)
		x.Finish()
		return
	}
	var stop func()
	x.Deadlines, stop = timing.NewDeadlines(ctx, x.opts.Hard, x.opts.Patience, x.RecordRetry)
	defer stop()
	x.walk(ctx, steps)
}

// steps returns the steps of the trial: of a new trial, of one that is verified again, of one with
// a visit, or of one whose judges alone run. visit is nil without a visit. Trials with an
// environment end with its teardown.
// Source: specification, "Container environment" and "Error handling behavior".
func (x *execution) steps(visit *visiting) []step {
	if x.spec.Judging != nil { // without an environment
		return []step{x.phase(event.Judging, x.judgeAll)}
	}
	if len(x.spec.Task.Config.Steps) > 0 {
		if x.spec.Again != nil {
			return append(stageStepsAgain(x), lastSteps(x)...)
		}
		return append(stageSteps(x), lastSteps(x)...)
	}
	var steps []step
	switch again := x.spec.Again; {
	case again == nil:
		steps = x.agentSteps(x.setup)
	case again.Artifacts != nil:
		steps = []step{x.phase(event.EnvironmentSetup, x.refill)}
	default:
		steps = []step{x.phase(event.EnvironmentSetup, x.restore)}
	}
	var verify []step
	if !x.job.Verifier.Disable {
		verify = []step{x.phase(event.Verifier, x.verify).when(x.mayVerify)}
	}
	collect, endWatch := step{"collect", x.collect}, step{"end watch", x.endWatch}
	if visit != nil {
		steps = until(visit.After, append(steps, verify...))
		if visit.After == event.Verifier {
			steps = append(steps, collect)
		}
		steps = append(steps, step{"visit", func(ctx context.Context) { x.receive(ctx, visit) }}, endWatch)
	} else {
		steps = slices.Concat(steps, x.keepSteps(), verify)
		switch {
		case !x.spec.judged():
			steps = append(steps, endWatch, collect)
		case x.spec.Again != nil:
			steps = append(steps, step{"no judges", x.warnUnjudged}, endWatch, collect)
		default: // the logs are collected before judges can change anything there
			steps = append(steps, collect, x.phase(event.Judging, x.judgeAll).when(x.mayJudge), endWatch)
		}
	}
	return append(steps, lastSteps(x)...)
}

// lastSteps returns the steps at the end of a trial with an environment.
func lastSteps(x *execution) []step {
	return []step{
		{"teardown", x.teardown},
		{"close gateway", x.closeGateway},
		{"drop outcome", x.dropOutcome},
		{"suggest Harbor", func(context.Context) { x.suggestHarbor(x.Trial.Error) }},
		{"refusals", func(context.Context) { x.refusals.Warn(x.Warn) }},
	}
}

// until returns the steps up to a phase.
func until(last event.Phase, steps []step) []step {
	order := []event.Phase{event.EnvironmentSetup, event.AgentSetup, event.AgentExecution, event.Verifier}
	allowed := order[:slices.Index(order, last)+1]
	return slices.DeleteFunc(steps, func(s step) bool { return !slices.Contains(allowed, event.Phase(s.name)) })
}

// keepSteps returns the steps that keep files of the environment before the verifier can change
// them.
func (x *execution) keepSteps() []step {
	var steps []step
	if x.spec.Again == nil && len(x.spec.Task.Config.Verifier.Collect) > 0 {
		steps = append(steps, step{"collect state", func(ctx context.Context) { collectState(ctx, x, true) }})
	}
	steps = append(steps, step{"keep artifacts", x.keepArtifacts})
	if x.spec.Again != nil { // the agent's part is that of the earlier trial
		return steps
	}
	if x.job.Environment.Keep == config.KeepOutcome {
		steps = append(steps, step{"keep outcome", x.keepOutcome})
	}
	if x.spec.judged() {
		steps = append(steps, step{"keep changes", x.keepChanges})
	}
	if readsServices(x) { // main may be stopped for it
		steps = append(steps, step{"keep services", func(ctx context.Context) { keepServices(ctx, x) }})
	}
	return steps
}

// mayVerify reports whether the tests run, unless they are disabled.
func (x *execution) mayVerify() bool {
	if x.remains || x.Spent {
		return false
	}
	return x.NoError() || x.AgentFailed() && (x.rules.VerifyAfterFailure || x.job.Verifier.OnAgentFailure == config.RunVerifier)
}

// verify puts the tests in place and runs them. It first removes the agent's files at /tests and in
// the verifier's log directory, such as a planted reward file.
func (x *execution) verify(ctx context.Context) error {
	if err := x.moveToTests(ctx); err != nil {
		return err
	}
	if err := x.switchNetwork(ctx, "the verifier", x.networks.Verify); err != nil {
		return err
	}
	script, files, err := x.testScript()
	if err != nil {
		return err
	}
	if err := x.live.copyTo(ctx, append(files,
		environment.Copy{Src: memfs.Dir{}, Dst: environment.LogsDir, Mode: 0o755}, // a directory, also if the agent replaced it
		environment.Copy{Src: memfs.Dir{}, Dst: environment.VerifierLogs, Clean: true, Mode: 0o777},
	)...); err != nil {
		if environment.KindOf(err) == environment.KindCopy && environment.MachineFault(err) == nil {
			err = failure.Newf(result.VerifierFailed, "the tests could not be put into the environment: %v: see tests/, and what the agent has made of %s and %s", err, environment.TestsDir, environment.LogsDir)
		}
		return err
	}
	run := scriptRun{
		script: script, logs: result.VerifierDir,
		env: x.spec.Task.VerifierEnv(), timeout: x.timeouts.Verify, user: string(x.spec.Task.Config.Verifier.User),
	}
	if x.rules.Parser != "" {
		run.also = &x.output
	}
	code, err := x.exec(ctx, run)
	if err != nil {
		return err
	}
	x.Trial.VerifierExitCode = &code
	what := x.spec.Task.Files().TestScript
	if code != 0 && x.rules.ExitCodeCounts {
		return failure.Newf(result.VerifierFailed, "%s ended with exit code %d%s: see %s", what, code, x.outOfMemory(ctx), x.outputIn(result.VerifierDir))
	}
	if code == exitKilled {
		if note := x.outOfMemory(ctx); note != "" {
			x.Warn("%s ended with exit code %d%s", what, code, note)
		}
	}
	return nil
}

// testScript returns the bash command that runs the tests, and the files that it needs.
func (x *execution) testScript() (script string, files []environment.Copy, err error) {
	if x.tests.moved && x.tests.bundled {
		return bundledScript, nil, nil
	}
	dirs, err := x.spec.Task.AllTests()
	if err != nil {
		return "", nil, failure.Unreadable(x.spec.Task.Files().Tests+"/", err)
	}
	name := x.rules.TestScript
	if files, err = mounts(x.spec.Task, true); err != nil {
		return "", nil, err
	}
	tests := dirs[0]
	for i, dir := range dirs {
		files = append(files, environment.Copy{Src: artifacts.WorldReadable{FS: dir, Program: name}, Dst: environment.TestsDir, Clean: i == 0})
		if info, err := fs.Stat(dir, name); err == nil && info.Mode().IsRegular() {
			tests = dir
		}
	}
	return scriptCommand(environment.TestsDir, tests, name, x.rules), files, nil
}
