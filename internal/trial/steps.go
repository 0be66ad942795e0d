package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"testing/fstest" // MapFS: the standard library's in-memory fs.FS
	"time"

	"github.com/org/rollout-action/internal/agent"
	"github.com/org/rollout-action/internal/awake"
	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/internal/event"
	"github.com/org/rollout-action/internal/result"
)

// Files inside an environment, and the variable with the instruction. Source: specification, "special paths".
const (
	installScript = environment.ScriptsDir + "/install.sh"
	executeScript = environment.ScriptsDir + "/execute.sh"

	solveScript = "solve.sh"
	testScript  = "test.sh"

	instructionVar = "ROLLOUT_TASK_INSTRUCTION"
)

// Bounds on calls to a provider that no configured timeout covers, so that none can hold up a job.
const (
	startTimeout = 5 * time.Minute
	copyTimeout  = 5 * time.Minute
)

// setup makes the image and the environment, with the instruction, the agent's scripts and the log
// folders in place before anything runs in it: one transfer instead of four.
func (x *execution) setup(ctx context.Context) error {
	pulled := x.images.pulls(x.spec.Task)
	began := x.opts.Now()
	ref, err := x.images.get(ctx, x.spec.Task, x.timeouts.Build, func(line string) {
		x.emit(event.Event{Kind: event.Progress, Message: line})
	})
	x.trial.Durations.ImageSec = new(result.Seconds(x.opts.Now().Sub(began)))
	if err != nil {
		return imageError(err, pulled)
	}
	x.trial.Environment.Image, x.trial.Environment.ImageID = ref, x.images.id(x.spec.Task, ref)
	x.recordNetworks()
	if pulled && x.opts.Job.Environment.ForceBuild {
		x.warn("force_build has no effect: the task has no environment/Dockerfile, so its docker_image is used")
	}
	if x.cachesInstall() {
		if ref, err = x.findLayer(ctx, ref); err != nil {
			return err
		}
	}
	return x.start(ctx, ref)
}

// start makes the environment, of the task's image or a layer on it.
func (x *execution) start(ctx context.Context, ref string) error {
	files, err := x.setupFiles()
	if err != nil {
		return err
	}
	starting, cancel := awake.WithTimeoutCause(ctx, startTimeout, errSlowStart)
	defer cancel()
	x.network = x.initialNetwork()
	env, err := x.opts.Provider.CreateEnvironment(starting, environment.CreateOptions{
		Image:  ref,
		Limits: x.limits(),
		Env:    x.environmentEnv(),
		Labels: environment.Labels{Job: x.opts.Job.Name, Trial: x.spec.Key.String(), Owner: x.owner},
		Files:  files,
		// Refusals of all phases are reported to it.
		Network: x.refusals.record(x.network),
	})
	if err != nil {
		if errors.Is(context.Cause(starting), errSlowStart) {
			return failf(result.EnvironmentStartFailed, "%v: %v", errSlowStart, err)
		}
		switch {
		case !errors.Is(err, environment.ErrNoImage):
		case x.layer != nil:
			x.layers.drop(x.layer)
		default:
			x.images.forget(x.spec.Task, ref)
		}
		return err
	}
	x.env, x.stop = env, x.destroyOnCancel(ctx, env)
	x.trial.Environment.ID = env.ID()
	x.trial.Environment.Unenforced = x.unenforced(environment.Unenforced(env))
	x.recordBase(environment.BaseOf(env))
	if err := x.checkNetworkSwitches(env); err != nil {
		return err
	}
	return x.awaitReady(ctx)
}

var errSlowStart = fmt.Errorf("the environment did not start within %s", startTimeout)

// imageError tells the image's failures apart where the error's kind alone does not: a provider that
// cannot be reached, or takes too long, fails what was wanted of it.
func imageError(err error, pulled bool) error {
	if errors.Is(err, errNoImage) {
		return failf(result.TaskInvalid, "%v", err)
	}
	timedOut := errors.Is(err, environment.ErrTimeout)
	if !timedOut && (!pulled || environment.KindOf(err) != environment.KindUnavailable) {
		return err // a provider that cannot be reached is no failure of the build, which would be the task's
	}
	e := environment.Error{Err: err}
	if known := new(environment.Error); errors.As(err, &known) {
		e = *known
	}
	e.Hint = cmp.Or(e.Hint, remedies[e.Kind])
	e.Kind = environment.KindBuild
	if pulled {
		e.Kind = environment.KindPull
	}
	if timedOut {
		e.Err = fmt.Errorf("%w: %w", environment.ErrTimeout, e.Err)
	}
	return &e
}

// limits are the task's resources with the job's overrides.
func (x *execution) limits() environment.Limits {
	t, job := x.spec.Task.Config.Environment, x.opts.Job.Environment
	limits := environment.Limits{MilliCPUs: t.MilliCPUs, Memory: t.Memory, Storage: t.Storage}
	if job.OverrideCPUs != nil {
		limits.MilliCPUs = int64(*job.OverrideCPUs)
	}
	if job.OverrideMemory != nil {
		limits.Memory = int64(*job.OverrideMemory)
	}
	if job.OverrideStorage != nil {
		limits.Storage = int64(*job.OverrideStorage)
	}
	return limits
}

// unenforced returns those of the limits that were not applied which somebody asked for, in task.toml or in the job.
// Where the limits are defaults alone, nobody expects them.
func (x *execution) unenforced(unenforced []string) []string {
	asked, job := x.spec.Task.Config.Environment.Asked, x.opts.Job.Environment
	merelyDefault := map[string]bool{
		"cpus":    !asked.CPUs && job.OverrideCPUs == nil,
		"memory":  !asked.Memory && job.OverrideMemory == nil,
		"storage": !asked.Storage && job.OverrideStorage == nil,
	}
	return slices.DeleteFunc(slices.Clone(unenforced), func(limit string) bool { return merelyDefault[limit] })
}

func (x *execution) setupFiles() ([]environment.Copy, error) {
	if x.making != nil {
		return x.installFiles(), nil
	}
	instruction, err := x.spec.Task.Instruction()
	if err != nil {
		return nil, unreadable("instruction.md", err)
	}
	dir, name := path.Split(x.opts.Job.InstructionPath)
	var files []environment.Copy
	for _, dir := range x.rules.LogDirs {
		files = append(files, environment.Copy{Src: fstest.MapFS{}, Dst: dir, Mode: 0o777})
	}
	files = append(files, environment.Copy{Src: fstest.MapFS{name: {Data: instruction, Mode: 0o644}}, Dst: path.Clean(dir)})
	if x.spec.Agent.Name == agent.Oracle {
		solution, err := x.spec.Task.Solution()
		if err != nil {
			return nil, unreadable("solution/", err)
		}
		for _, dir := range x.rules.SolutionDirs {
			files = append(files, environment.Copy{Src: worldReadable{solution, solveScript}, Dst: dir, Clean: true})
		}
		return files, nil
	}
	scripts := fstest.MapFS{}
	for name, text := range map[string]string{installScript: x.spec.Agent.Install, executeScript: x.spec.Agent.Execute} {
		if text != "" {
			scripts[path.Base(name)] = &fstest.MapFile{Data: []byte(text), Mode: 0o755}
		}
	}
	if len(scripts) > 0 {
		files = append(files, environment.Copy{Src: scripts, Dst: environment.ScriptsDir})
	}
	return files, nil
}

// unreadable is the error of files of the task that cannot be read: this machine's, or else the task's.
func unreadable(what string, err error) error {
	if environment.MachineFault(err) != nil {
		return fmt.Errorf("read the task's %s: %w", what, err)
	}
	return failf(result.TaskInvalid, "%s cannot be read: %v", what, err)
}

func (x *execution) install(ctx context.Context) error {
	err := x.runInstallScript(ctx)
	switch {
	case err != nil:
		x.layerFailed(ctx, err)
	case x.making != nil:
		err = x.keepLayer(ctx)
	}
	return err
}

func (x *execution) runInstallScript(ctx context.Context) error {
	x.refusals.setActor("the install script")
	// Not as agent.user, who could not add packages.
	code, err := x.exec(ctx, scriptRun{script: "exec bash " + installScript, logs: "setup", env: x.agentEnv(), timeout: x.timeouts.Install})
	if err == nil && code != 0 {
		return failf(result.AgentInstallFailed, "the agent's install script ended with exit code %d%s: see setup/stdout.txt and setup/stderr.txt", code, x.outOfMemory(ctx))
	}
	return err
}

func (x *execution) execute(ctx context.Context) error {
	if err := x.switchNetwork(ctx, "the agent", x.networks.Agent); err != nil {
		return err
	}
	x.agentBegan = true
	script, what := "exec bash "+executeScript, "the agent's execute script"
	if x.spec.Agent.Name == agent.Oracle {
		solution, err := x.spec.Task.Solution()
		if err != nil {
			return unreadable("solution/", err)
		}
		script, what = scriptCommand(x.rules.SolutionDirs[0], solution, solveScript, x.rules.RunAsPrograms), "the task's solution/solve.sh"
	}
	code, err := x.exec(ctx, scriptRun{
		script: script, logs: "command", env: x.agentEnv(), timeout: x.timeouts.Execute, user: x.spec.Task.Config.Agent.User,
	})
	x.agentBegan = !errors.Is(err, environment.ErrNotBegun)
	if err == nil && code != 0 {
		return failf(result.AgentExecutionFailed, "%s ended with exit code %d%s: see command/stdout.txt and command/stderr.txt", what, code, x.outOfMemory(ctx))
	}
	return err
}

// agentEnv is what the agent's scripts see besides the image's own variables.
func (x *execution) agentEnv() map[string]string {
	env := map[string]string{}
	if x.spec.Agent.Name == agent.Oracle {
		maps.Copy(env, x.spec.Task.SolutionEnv())
	}
	maps.Copy(env, x.spec.Env)
	env[instructionVar] = x.opts.Job.InstructionPath
	return env
}

// verify puts the tests in place and runs them. Whatever stood at /tests, or in the verifier's log
// folder, the agent left there: it is removed first, a planted reward file with it.
func (x *execution) verify(ctx context.Context) error {
	tests, err := x.spec.Task.Tests()
	if err != nil {
		return unreadable("tests/", err)
	}
	if err := x.switchNetwork(ctx, "the verifier", x.networks.Verify); err != nil {
		return err
	}
	if err := x.copyTo(ctx,
		environment.Copy{Src: worldReadable{tests, testScript}, Dst: environment.TestsDir, Clean: true},
		environment.Copy{Src: fstest.MapFS{}, Dst: environment.LogsDir, Mode: 0o755}, // a folder, whatever the agent made of it
		environment.Copy{Src: fstest.MapFS{}, Dst: environment.VerifierLogs, Clean: true, Mode: 0o777},
	); err != nil {
		if environment.KindOf(err) == environment.KindCopy && environment.MachineFault(err) == nil {
			err = failf(result.VerifierFailed, "the tests could not be put into the environment: %v: see tests/, and what the agent has made of %s and %s", err, environment.TestsDir, environment.LogsDir)
		}
		return err
	}
	x.testsExitCode, err = x.exec(ctx, scriptRun{
		script: scriptCommand(environment.TestsDir, tests, testScript, x.rules.RunAsPrograms), logs: "logs/verifier",
		env: x.spec.Task.VerifierEnv(), timeout: x.timeouts.Verify, user: x.spec.Task.Config.Verifier.User,
	})
	if x.testsEnded = err == nil; x.testsEnded {
		code := x.testsExitCode
		x.trial.VerifierExitCode = &code
	}
	if x.testsEnded && x.testsExitCode != 0 && x.rules.ExitCodeCounts {
		return failf(result.VerifierFailed, "tests/test.sh ended with exit code %d%s: see logs/verifier/stdout.txt and logs/verifier/stderr.txt", x.testsExitCode, x.outOfMemory(ctx))
	}
	if x.testsEnded && x.testsExitCode == exitKilled {
		if note := x.outOfMemory(ctx); note != "" {
			x.warn("tests/test.sh ended with exit code %d%s", x.testsExitCode, note)
		}
	}
	return err
}

func (x *execution) copyTo(ctx context.Context, files ...environment.Copy) error {
	ctx, cancel := awake.WithTimeout(ctx, copyTimeout)
	defer cancel()
	return x.env.CopyTo(ctx, files...)
}

// scriptRun is a script to be run in a trial.
type scriptRun struct {
	script  string // for bash
	logs    string // the folder below the trial's for stdout.txt and stderr.txt
	env     map[string]string
	user    string // "" is the image's
	timeout time.Duration
}

// exec runs a script where the task wants it.
func (x *execution) exec(ctx context.Context, r scriptRun) (int, error) {
	stdout, err := x.capture(r.logs + "/stdout.txt")
	if err != nil {
		return 0, err
	}
	defer x.release(stdout)
	stderr, err := x.capture(r.logs + "/stderr.txt")
	if err != nil {
		return 0, err
	}
	defer x.release(stderr)
	env := x.commandEnv()
	maps.Copy(env, r.env)
	return x.env.Exec(ctx, r.script, environment.ExecOptions{
		Env: env, WorkDir: x.spec.Task.Config.Environment.WorkDir, User: r.user, Stdout: stdout, Stderr: stderr, Timeout: r.timeout,
	})
}

func (x *execution) capture(name string) (*capture, error) {
	c, err := openCapture(x.dir, name, int64(x.opts.Job.MaxStreamSize), x.opts.Redactor)
	if err != nil {
		return nil, fmt.Errorf("the output has nowhere to go: %w", environment.MarkMachineError(err))
	}
	return c, nil
}

func (x *execution) release(c *capture) {
	if omitted := c.close(); omitted != "" {
		x.omit(c.path, omitted)
	}
}

func (x *execution) omit(path, reason string) {
	x.trial.Omitted = append(x.trial.Omitted, result.Omission{
		Path: hide(x.opts.Redactor, path), Reason: hide(x.opts.Redactor, reason),
	})
}
