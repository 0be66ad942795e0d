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
func (a *attempt) setup(ctx context.Context) error {
	pulled := a.images.pulls(a.spec.Task)
	began := a.opts.Now()
	ref, err := a.images.get(ctx, a.spec.Task, a.timeouts.Build, func(line string) {
		a.emit(event.Event{Kind: event.Progress, Message: line})
	})
	a.trial.Durations.ImageSec = new(result.Seconds(a.opts.Now().Sub(began)))
	if err != nil {
		return imageError(err, pulled)
	}
	a.trial.Environment.Image, a.trial.Environment.ImageID = ref, a.images.id(a.spec.Task, ref)
	a.noteNetworks()
	if pulled && a.opts.Job.Environment.ForceBuild {
		a.warn("force_build has no effect: the task has no environment/Dockerfile, so its docker_image is used")
	}
	if a.caches() {
		if ref, err = a.findLayer(ctx, ref); err != nil {
			return err
		}
	}
	return a.start(ctx, ref)
}

// start makes the environment, of the task's image or a layer on it.
func (a *attempt) start(ctx context.Context, ref string) error {
	files, err := a.files()
	if err != nil {
		return err
	}
	starting, cancel := awake.WithTimeoutCause(ctx, startTimeout, errSlowStart)
	defer cancel()
	a.network = a.firstNetwork()
	env, err := a.opts.Provider.CreateEnvironment(starting, environment.CreateOptions{
		Image:  ref,
		Limits: a.limits(),
		Env:    a.environmentEnv(),
		Labels: environment.Labels{Job: a.opts.Job.Name, Trial: a.spec.Key.String(), Owner: a.owner},
		Files:  files,
		// It is told of what it refuses in all phases.
		Network: a.refused.heard(a.network),
	})
	if err != nil {
		if errors.Is(context.Cause(starting), errSlowStart) {
			return failf(result.EnvironmentStartFailed, "%v: %v", errSlowStart, err)
		}
		switch {
		case !errors.Is(err, environment.ErrNoImage):
		case a.layer != nil:
			a.layers.drop(a.layer)
		default:
			a.images.forget(a.spec.Task, ref)
		}
		return err
	}
	a.env, a.calm = env, a.hurry(ctx, env)
	a.trial.Environment.ID = env.ID()
	a.trial.Environment.Unenforced = a.missed(environment.Unenforced(env))
	a.noteBase(environment.BaseOf(env))
	if err := a.networkFixed(env); err != nil {
		return err
	}
	return a.ready(ctx)
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
	e.Hint = cmp.Or(e.Hint, wayOut[e.Kind])
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
func (a *attempt) limits() environment.Limits {
	t, job := a.spec.Task.Config.Environment, a.opts.Job.Environment
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

// missed is those of the limits that were not applied which somebody asked for, in task.toml or in the job.
// Where the limits are defaults alone, nobody expects them.
func (a *attempt) missed(unenforced []string) []string {
	asked, job := a.spec.Task.Config.Environment.Asked, a.opts.Job.Environment
	merelyDefault := map[string]bool{
		"cpus":    !asked.CPUs && job.OverrideCPUs == nil,
		"memory":  !asked.Memory && job.OverrideMemory == nil,
		"storage": !asked.Storage && job.OverrideStorage == nil,
	}
	return slices.DeleteFunc(slices.Clone(unenforced), func(limit string) bool { return merelyDefault[limit] })
}

func (a *attempt) files() ([]environment.Copy, error) {
	if a.making != nil {
		return a.installFiles(), nil
	}
	instruction, err := a.spec.Task.Instruction()
	if err != nil {
		return nil, unreadable("instruction.md", err)
	}
	dir, name := path.Split(a.opts.Job.InstructionPath)
	var files []environment.Copy
	for _, dir := range a.rules.LogDirs {
		files = append(files, environment.Copy{Src: fstest.MapFS{}, Dst: dir, Mode: 0o777})
	}
	files = append(files, environment.Copy{Src: fstest.MapFS{name: {Data: instruction, Mode: 0o644}}, Dst: path.Clean(dir)})
	if a.spec.Agent.Name == agent.Oracle {
		solution, err := a.spec.Task.Solution()
		if err != nil {
			return nil, unreadable("solution/", err)
		}
		for _, dir := range a.rules.SolutionDirs {
			files = append(files, environment.Copy{Src: forEveryone{solution, solveScript}, Dst: dir, Clean: true})
		}
		return files, nil
	}
	scripts := fstest.MapFS{}
	for name, text := range map[string]string{installScript: a.spec.Agent.Install, executeScript: a.spec.Agent.Execute} {
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

func (a *attempt) install(ctx context.Context) error {
	err := a.runInstall(ctx)
	switch {
	case err != nil:
		a.layerFailed(ctx, err)
	case a.making != nil:
		err = a.keepLayer(ctx)
	}
	return err
}

func (a *attempt) runInstall(ctx context.Context) error {
	a.refused.by("the install script")
	// Not as agent.user, who could not add packages.
	code, err := a.exec(ctx, run{script: "exec bash " + installScript, logs: "setup", env: a.agentEnv(), timeout: a.timeouts.Install})
	if err == nil && code != 0 {
		return failf(result.AgentInstallFailed, "the agent's install script ended with exit code %d%s: see setup/stdout.txt and setup/stderr.txt", code, a.outOfMemory(ctx))
	}
	return err
}

func (a *attempt) execute(ctx context.Context) error {
	if err := a.enter(ctx, "the agent", a.networks.Agent); err != nil {
		return err
	}
	a.agentBegan = true
	script, what := "exec bash "+executeScript, "the agent's execute script"
	if a.spec.Agent.Name == agent.Oracle {
		solution, err := a.spec.Task.Solution()
		if err != nil {
			return unreadable("solution/", err)
		}
		script, what = command(a.rules.SolutionDirs[0], solution, solveScript, a.rules.RunAsPrograms), "the task's solution/solve.sh"
	}
	code, err := a.exec(ctx, run{
		script: script, logs: "command", env: a.agentEnv(), timeout: a.timeouts.Execute, user: a.spec.Task.Config.Agent.User,
	})
	a.agentBegan = !errors.Is(err, environment.ErrNotBegun)
	if err == nil && code != 0 {
		return failf(result.AgentExecutionFailed, "%s ended with exit code %d%s: see command/stdout.txt and command/stderr.txt", what, code, a.outOfMemory(ctx))
	}
	return err
}

// agentEnv is what the agent's scripts see besides the image's own variables.
func (a *attempt) agentEnv() map[string]string {
	env := map[string]string{}
	if a.spec.Agent.Name == agent.Oracle {
		maps.Copy(env, a.spec.Task.SolutionEnv())
	}
	maps.Copy(env, a.spec.Env)
	env[instructionVar] = a.opts.Job.InstructionPath
	return env
}

// verify puts the tests in place and runs them. Whatever stood at /tests, or in the verifier's log
// folder, the agent left there: it is removed first, a planted reward file with it.
func (a *attempt) verify(ctx context.Context) error {
	tests, err := a.spec.Task.Tests()
	if err != nil {
		return unreadable("tests/", err)
	}
	if err := a.enter(ctx, "the verifier", a.networks.Verify); err != nil {
		return err
	}
	if err := a.copyTo(ctx,
		environment.Copy{Src: forEveryone{tests, testScript}, Dst: environment.TestsDir, Clean: true},
		environment.Copy{Src: fstest.MapFS{}, Dst: environment.LogsDir, Mode: 0o755}, // a folder, whatever the agent made of it
		environment.Copy{Src: fstest.MapFS{}, Dst: environment.VerifierLogs, Clean: true, Mode: 0o777},
	); err != nil {
		if environment.KindOf(err) == environment.KindCopy && environment.MachineFault(err) == nil {
			err = failf(result.VerifierFailed, "the tests could not be put into the environment: %v: see tests/, and what the agent has made of %s and %s", err, environment.TestsDir, environment.LogsDir)
		}
		return err
	}
	a.testCode, err = a.exec(ctx, run{
		script: command(environment.TestsDir, tests, testScript, a.rules.RunAsPrograms), logs: "logs/verifier",
		env: a.spec.Task.VerifierEnv(), timeout: a.timeouts.Verify, user: a.spec.Task.Config.Verifier.User,
	})
	if a.tested = err == nil; a.tested {
		code := a.testCode
		a.trial.VerifierExitCode = &code
	}
	if a.tested && a.testCode != 0 && a.rules.ExitCodeCounts {
		return failf(result.VerifierFailed, "tests/test.sh ended with exit code %d%s: see logs/verifier/stdout.txt and logs/verifier/stderr.txt", a.testCode, a.outOfMemory(ctx))
	}
	if a.tested && a.testCode == killed {
		if note := a.outOfMemory(ctx); note != "" {
			a.warn("tests/test.sh ended with exit code %d%s", a.testCode, note)
		}
	}
	return err
}

func (a *attempt) copyTo(ctx context.Context, files ...environment.Copy) error {
	ctx, cancel := awake.WithTimeout(ctx, copyTimeout)
	defer cancel()
	return a.env.CopyTo(ctx, files...)
}

// run is a script of a trial.
type run struct {
	script  string // for bash
	logs    string // the folder below the trial's for stdout.txt and stderr.txt
	env     map[string]string
	user    string // "" is the image's
	timeout time.Duration
}

// exec runs a script where the task wants it.
func (a *attempt) exec(ctx context.Context, r run) (int, error) {
	stdout, err := a.capture(r.logs + "/stdout.txt")
	if err != nil {
		return 0, err
	}
	defer a.release(stdout)
	stderr, err := a.capture(r.logs + "/stderr.txt")
	if err != nil {
		return 0, err
	}
	defer a.release(stderr)
	env := a.makersEnv()
	maps.Copy(env, r.env)
	return a.env.Exec(ctx, r.script, environment.ExecOptions{
		Env: env, WorkDir: a.spec.Task.Config.Environment.WorkDir, User: r.user, Stdout: stdout, Stderr: stderr, Timeout: r.timeout,
	})
}

func (a *attempt) capture(name string) (*capture, error) {
	c, err := openCapture(a.dir, name, int64(a.opts.Job.MaxStreamSize), a.opts.Redactor)
	if err != nil {
		return nil, fmt.Errorf("the output has nowhere to go: %w", environment.MarkMachineError(err))
	}
	return c, nil
}

func (a *attempt) release(c *capture) {
	if omitted := c.close(); omitted != "" {
		a.omit(c.path, omitted)
	}
}

func (a *attempt) omit(path, reason string) {
	a.trial.Omitted = append(a.trial.Omitted, result.Omission{
		Path: hide(a.opts.Redactor, path), Reason: hide(a.opts.Redactor, reason),
	})
}
