package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"testing/fstest" // MapFS: the standard library's in-memory fs.FS
	"time"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/trial/images"
)

// Scripts inside an environment, and the variable with the instruction. Source: specification,
// "special paths".
const (
	installScript = "install.sh"
	executeScript = "execute.sh"

	solveScript = "solve.sh"
	testScript  = "test.sh"

	instructionVar = "ROLLOUT_TASK_INSTRUCTION"
	judgeDirVar    = "ROLLOUT_JUDGE_DIR" // of a judge: where its verdict belongs
)

// Timeouts of calls to a provider that no configured timeout covers, so that none can block a job.
const (
	startTimeout = 5 * time.Minute
	copyTimeout  = 5 * time.Minute
)

// setup makes the image and the environment.
func (x *execution) setup(ctx context.Context) error {
	if again := x.spec.Again; again != nil && again.Artifacts == nil {
		return x.restore(ctx)
	}
	pulled := x.images.Pulls(x.spec.Task)
	began := x.now()
	ref, err := x.images.Get(ctx, x.spec.Task, x.timeouts.Build, x.progress)
	x.progress("")
	x.trial.Durations.ImageSec = new(result.Seconds(x.now().Sub(began)))
	if err != nil {
		return imageError(err, pulled)
	}
	x.trial.Environment.Image, x.trial.Environment.ImageID = ref, x.images.ID(x.spec.Task, ref)
	x.trial.Environment.Network = networkRecord(x.networks)
	for _, warning := range x.networkWarnings() {
		x.warn("%s", warning)
	}
	if pulled && x.job.Environment.ForceBuild {
		x.warn("force_build has no effect: the task has no environment/Dockerfile, so its docker_image is used")
	}
	if x.cachesInstall() && x.spec.Again == nil {
		if ref, err = x.findLayer(ctx, ref); err != nil {
			return err
		}
	}
	return x.start(ctx, ref)
}

// start makes the environment from an image, the task's or a layer on it, and waits until it is
// ready. All files are copied before any command runs: one transfer instead of four.
func (x *execution) start(ctx context.Context, ref string) error {
	files, err := x.installFiles(), error(nil)
	if x.making == nil {
		files, err = x.files()
		switch again := x.spec.Again; {
		case err != nil:
		case again != nil:
			var kept []environment.Copy
			kept, err = again.artifacts()
			files = append(kept, files...)
		case x.layer == nil:
			files = append(x.agentFiles(), files...)
		}
	}
	if err != nil {
		return err
	}
	network := x.initialNetwork(x.layer != nil)
	if x.spec.Again != nil {
		network = x.networks.Verify
	}
	err = x.begin(ctx, environment.CreateOptions{Image: ref, Files: files, Network: network}, x.opts.Provider.CreateEnvironment)
	if err == nil && x.spec.Again != nil {
		x.trial.Error = errorOfAgent(x.spec.Again.Before)
	}
	if errors.Is(err, environment.ErrNoImage) {
		if x.layer != nil {
			x.layer.Drop()
		} else {
			x.images.Forget(x.spec.Task, ref)
		}
	}
	return err
}

// begin creates the environment with create, and waits until it is ready. opts holds the options
// that depend on how the trial begins.
func (x *execution) begin(
	ctx context.Context, opts environment.CreateOptions, create func(context.Context, environment.CreateOptions) (environment.Environment, error),
) error {
	limit, starting, stop := newStartLimit(ctx, startTimeout)
	defer stop()
	opts.Waiting = func(reason string) {
		limit.wait(reason != "")
		x.progress(reason)
	}
	opts.Lifetime = x.lifetime()
	network := opts.Network
	opts.Limits, opts.Env = x.limits(), x.environmentEnv()
	opts.Labels = environment.Labels{Job: x.job.Name, Trial: x.spec.Key.String(), Run: x.opts.Run, Owner: x.owner}
	opts.Network = x.refusals.record(network) // of all phases
	env, err := create(starting, opts)
	if err != nil {
		if errors.Is(context.Cause(starting), errSlowStart) {
			return failf(result.EnvironmentStartFailed, "%v: %v", errSlowStart, err)
		}
		return err
	}
	x.live = &liveEnvironment{
		env: env, network: network,
		stop: x.destroyOnCancel(ctx, env, x.job.Environment.PreserveEnv == config.PreserveAlways),
	}
	x.trial.Environment.ID = env.ID()
	x.trial.Environment.Unenforced = x.unenforced(environment.Unenforced(env))
	x.recordBase(environment.BaseOf(env))
	if err := x.checkNetworkSwitches(env, network, x.opts.Provider.Name()); err != nil {
		return err
	}
	r := readiness{plan: &x.plan, env: env, commandEnv: x.commandEnv(), secrets: x.secrets}
	warning, err := r.await(ctx)
	if warning != "" {
		x.warn("%s", warning)
	}
	return err
}

var errSlowStart = fmt.Errorf("the environment did not start within %s", startTimeout)

// imageError returns the error of an image with a kind that distinguishes build and pull. The
// provider's own kind does not, if it cannot be reached or takes too long.
func imageError(err error, pulled bool) error {
	if errors.Is(err, images.ErrNotDefined) {
		return failf(result.TaskInvalid, "%v", err)
	}
	timedOut := errors.Is(err, environment.ErrTimeout)
	if !timedOut && (!pulled || environment.KindOf(err) != environment.KindUnavailable) {
		return err // not a failure of the build, which would be the task's
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

// environmentEnv returns the variables of a new environment: those of the task, or none if it
// becomes a layer, because they would be in the image.
func (x *execution) environmentEnv() map[string]string {
	if x.making != nil {
		return nil
	}
	return x.spec.Task.EnvironmentEnv()
}

// commandEnv returns the variables that the environment lacks, and that each command in it gets
// instead.
func (x *execution) commandEnv() map[string]string {
	env := map[string]string{}
	if x.making != nil {
		maps.Copy(env, x.spec.Task.EnvironmentEnv())
	}
	return env
}

// install runs the agent's install script. If the trial makes a layer, it makes it from the
// environment afterwards.
func (x *execution) install(ctx context.Context) error {
	err := x.runInstallScript(ctx)
	switch {
	case err != nil:
		x.failLayer(ctx, err)
	case x.making != nil:
		err = x.keepLayer(ctx)
	}
	return err
}

func (x *execution) runInstallScript(ctx context.Context) error {
	x.refusals.setActor("the install script")
	if err := x.beginProcesses(ctx); err != nil {
		return err
	}
	// Not as agent.user, who could not add packages.
	code, err := x.exec(ctx, scriptRun{script: "exec bash " + environment.ScriptsDir + "/" + installScript, logs: result.SetupDir, env: x.agentEnv(), timeout: x.timeouts.Install})
	if err == nil && code != 0 {
		return failf(result.AgentInstallFailed, "the agent's install script ended with exit code %d%s: see %s", code, x.outOfMemory(ctx), x.outputIn(result.SetupDir))
	}
	return err
}

// execute runs the agent.
func (x *execution) execute(ctx context.Context) error {
	if x.isCall() {
		return x.executeCall(ctx)
	}
	if err := x.switchNetwork(ctx, "the agent", x.networks.Agent); err != nil {
		return err
	}
	script, what := "exec bash "+x.scriptsDir()+"/"+executeScript, "the agent's execute script"
	if x.judge != nil {
		what = "its execute script"
	}
	if x.spec.Agent.Name == agent.Oracle {
		solution, err := x.spec.Task.Solution()
		if err != nil {
			return unreadable("solution/", err)
		}
		script, what = scriptCommand(x.rules.SolutionDirs[0], solution, solveScript, x.rules.RunAsPrograms), "the task's solution/solve.sh"
	}
	if err := x.beginProcesses(ctx); err != nil {
		return err
	}
	gateway, err := x.openGateway(ctx)
	if err != nil {
		return err
	}
	if x.isShell() {
		return x.executeShell(ctx, gateway)
	}
	env, err := judgeGit(ctx, x)
	if err != nil {
		return x.closeGateway(gateway, err)
	}
	own := gateway.variables(x.agentEnv())
	maps.Copy(own, env)
	x.agentBegan = true
	code, err := x.exec(ctx, scriptRun{script: script, logs: result.CommandDir, env: own, timeout: x.timeouts.Execute, user: x.agentUser()})
	x.agentBegan = !errors.Is(err, environment.ErrNotBegun)
	if err == nil && code != 0 {
		err = failf(result.AgentExecutionFailed, "%s ended with exit code %d%s: see %s", what, code, x.outOfMemory(ctx), x.outputIn(result.CommandDir))
	}
	return x.closeGateway(gateway, err)
}

// verify puts the tests in place and runs them. It first removes the agent's files at /tests and in
// the verifier's log directory, such as a planted reward file.
func (x *execution) verify(ctx context.Context) error {
	tests, err := x.spec.Task.Tests()
	if err != nil {
		return unreadable("tests/", err)
	}
	if err := x.switchNetwork(ctx, "the verifier", x.networks.Verify); err != nil {
		return err
	}
	if err := x.live.copyTo(ctx,
		environment.Copy{Src: worldReadable{tests, testScript}, Dst: environment.TestsDir, Clean: true},
		environment.Copy{Src: fstest.MapFS{}, Dst: environment.LogsDir, Mode: 0o755}, // a directory, even if the agent replaced it
		environment.Copy{Src: fstest.MapFS{}, Dst: environment.VerifierLogs, Clean: true, Mode: 0o777},
	); err != nil {
		if environment.KindOf(err) == environment.KindCopy && environment.MachineFault(err) == nil {
			err = failf(result.VerifierFailed, "the tests could not be put into the environment: %v: see tests/, and what the agent has made of %s and %s", err, environment.TestsDir, environment.LogsDir)
		}
		return err
	}
	code, err := x.exec(ctx, scriptRun{
		script: scriptCommand(environment.TestsDir, tests, testScript, x.rules.RunAsPrograms), logs: result.VerifierDir,
		env: x.spec.Task.VerifierEnv(), timeout: x.timeouts.Verify, user: string(x.spec.Task.Config.Verifier.User),
	})
	if err != nil {
		return err
	}
	x.trial.VerifierExitCode = &code
	if code != 0 && x.rules.ExitCodeCounts {
		return failf(result.VerifierFailed, "tests/test.sh ended with exit code %d%s: see %s", code, x.outOfMemory(ctx), x.outputIn(result.VerifierDir))
	}
	if code == exitKilled {
		if note := x.outOfMemory(ctx); note != "" {
			x.warn("tests/test.sh ended with exit code %d%s", code, note)
		}
	}
	return nil
}

// scriptRun is a script to run in a trial.
type scriptRun struct {
	script  string // for bash
	logs    string // the directory below the trial's for the script's output
	env     map[string]string
	user    string // "" is the image's
	timeout time.Duration
}

// outputIn names the files with a script's output, for messages. dir is below the directory of the
// run.
func (p *plan) outputIn(dir string) string {
	if p.judge != nil {
		dir = result.JudgesDir + "/" + p.judge.below + "/" + dir
	}
	return dir + "/" + result.StdoutFile + " and " + dir + "/" + result.StderrFile
}

// exec runs a script in the task's working directory, and returns its exit code.
func (x *execution) exec(ctx context.Context, r scriptRun) (int, error) {
	stdout, err := x.capture(r.logs + "/" + result.StdoutFile)
	if err != nil {
		return 0, err
	}
	defer x.release(stdout)
	stderr, err := x.capture(r.logs + "/" + result.StderrFile)
	if err != nil {
		return 0, err
	}
	defer x.release(stderr)
	env := x.commandEnv()
	maps.Copy(env, r.env)
	var ran time.Duration
	began := x.now()
	code, err := x.live.env.Exec(ctx, r.script, environment.ExecOptions{
		Env: env, WorkDir: x.spec.Task.Config.Environment.WorkDir, User: r.user, Stdout: stdout, Stderr: stderr, Timeout: r.timeout, Ran: &ran,
	})
	x.late = stretch(x.now().Sub(began), ran)
	return code, err
}
