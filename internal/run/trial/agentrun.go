package trial

import (
	"context"
	"errors"
	"io"
	"maps"
	"path"
	"time"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/trial/access"
	"github.com/org/rollout-action/internal/run/trial/failure"
	"github.com/org/rollout-action/internal/run/trial/layer"
	"github.com/org/rollout-action/internal/run/trial/networks"
	"github.com/org/rollout-action/internal/run/trial/processes"
	"github.com/org/rollout-action/internal/run/trial/record"
	"github.com/org/rollout-action/internal/run/trial/timing"
)

// Scripts inside an environment, and the variable with the instruction. Source: specification,
// "special paths".
const (
	installScript = "install.sh"
	executeScript = "execute.sh"
	testScript    = "test.sh"

	instructionVar = "ROLLOUT_TASK_INSTRUCTION"
	judgeDirVar    = "ROLLOUT_JUDGE_DIR" // of a judge: where its verdict belongs
)

// agentRun is one run of an agent: of the trial's own, the policy under test, or of a judge. It has
// the agent's script, its access to a model within a budget, its environment and its record.
type agentRun struct {
	*Runner
	plan
	record.Record
	timing.Deadlines
	refusals networks.Refusals

	live   *liveEnvironment // nil until it is made
	making *layer.Layer     // the layer that this run makes and others may wait for; nil: none
	layer  *layer.Layer     // the environment's layer, with the agent installed; nil if it is based on the task's image

	gateway *access.Gateway   // the agent's gateway; nil: none
	marker  *processes.Marker // ends the processes that the agent starts; nil: no judge needs it

	agentBegan bool
	// elsewhere is set if the agent ran in another environment than the current one.
	elsewhere bool
	// late is the delay after which the end of the phase's script was known. The phase's time is
	// measured by the environment's clock.
	late time.Duration
	// remains is set if processes of an agent that is out of time may still run.
	remains bool
	// startOver is the reason why the trial has to be executed again: its environment, its image,
	// the machine or the gateway to its model failed before the agent had begun. Otherwise it is
	// nil.
	startOver error
}

// agentSteps returns the steps of an agent. setup is the first one.
func (x *agentRun) agentSteps(setup func(context.Context) error) []step {
	steps := []step{x.phase(event.EnvironmentSetup, setup)}
	if x.spec.Agent.Install != "" {
		steps = append(steps, x.phase(event.AgentSetup, x.install).when(func() bool { return x.NoError() && x.layer == nil }))
	}
	if x.spec.Agent.Name != agent.Nop {
		steps = append(steps, x.phase(event.AgentExecution, x.execute).when(x.NoError))
	}
	return steps
}

// install runs the agent's install script. If the trial makes a layer, it makes it from the
// environment afterwards.
func (x *agentRun) install(ctx context.Context) error {
	err := x.runInstallScript(ctx)
	switch {
	case err != nil:
		x.failLayer(ctx, err)
	case x.making != nil:
		err = x.keepLayer(ctx)
	}
	return err
}

func (x *agentRun) runInstallScript(ctx context.Context) error {
	x.refusals.SetActor("the install script")
	if err := x.beginProcesses(ctx); err != nil {
		return err
	}
	// Not as agent.user, who could not add packages.
	code, err := x.exec(ctx, scriptRun{script: "exec bash " + environment.ScriptsDir + "/" + installScript, logs: result.SetupDir, env: x.agentEnv(), timeout: x.timeouts.Install})
	if err == nil && code != 0 {
		return failure.Newf(result.AgentInstallFailed, "the agent's install script ended with exit code %d%s: see %s", code, x.outOfMemory(ctx), x.outputIn(result.SetupDir))
	}
	return err
}

// execute runs the agent.
func (x *agentRun) execute(ctx context.Context) error {
	if x.isCall() {
		return x.executeCall(ctx)
	}
	if err := x.switchNetwork(ctx, "the agent", x.networks.Agent); err != nil {
		return err
	}
	script, what := "exec bash "+x.role.dir+"/"+executeScript, x.role.script
	if x.spec.Agent.Name == agent.Oracle {
		solution, err := x.spec.Task.Solution()
		if err != nil {
			return failure.Unreadable(path.Dir(x.spec.Task.Files().Solution)+"/", err)
		}
		script, what = scriptCommand(x.rules.SolutionDirs[0], solution, x.rules.SolutionScript, x.rules), "the task's "+x.spec.Task.Files().Solution
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
		return x.endGateway(gateway, err)
	}
	own := x.agentEnv()
	if gateway != nil {
		own = gateway.Variables(own)
	}
	maps.Copy(own, env)
	x.agentBegan = true
	code, err := x.exec(ctx, scriptRun{script: script, logs: result.CommandDir, env: own, timeout: x.timeouts.Execute, user: x.role.user})
	x.agentBegan = !errors.Is(err, environment.ErrNotBegun)
	switch {
	case err != nil || code == 0:
	case x.spec.Agent.Name == agent.Oracle && x.rules.SolutionMayFail:
		x.Warn("%s ended with exit code %d%s, which does not count: see %s", what, code, x.outOfMemory(ctx), x.outputIn(result.CommandDir))
	default:
		err = failure.Newf(result.AgentExecutionFailed, "%s ended with exit code %d%s: see %s", what, code, x.outOfMemory(ctx), x.outputIn(result.CommandDir))
	}
	return x.endGateway(gateway, err)
}

// scriptRun is a script to run in a trial.
type scriptRun struct {
	script  string // for bash
	logs    string // the directory below the trial's for the script's output
	env     map[string]string
	user    string // "" is the image's
	timeout time.Duration
	also    io.Writer // gets the standard output, too; may be nil
}

// outputIn names the files with a script's output, for messages. dir is below the directory of the
// run.
func (p *plan) outputIn(dir string) string {
	dir = path.Join(p.role.below, dir)
	return dir + "/" + result.StdoutFile + " and " + dir + "/" + result.StderrFile
}

// exec runs a script in the task's working directory, and returns its exit code.
func (x *agentRun) exec(ctx context.Context, r scriptRun) (int, error) {
	stdout, err := x.Capture(r.logs + "/" + result.StdoutFile)
	if err != nil {
		return 0, err
	}
	defer x.Release(stdout)
	stderr, err := x.Capture(r.logs + "/" + result.StderrFile)
	if err != nil {
		return 0, err
	}
	defer x.Release(stderr)
	out := io.Writer(stdout)
	if r.also != nil {
		out = io.MultiWriter(stdout, r.also)
	}
	env := x.commandEnv()
	maps.Copy(env, r.env)
	var ran time.Duration
	began := x.Now()
	code, err := x.live.env.Exec(ctx, r.script, environment.ExecOptions{
		Env: env, WorkDir: x.spec.Task.Config.Environment.WorkDir, User: r.user, Stdout: out, Stderr: stderr, Timeout: r.timeout, Ran: &ran,
	})
	x.late = timing.Unmeasured(x.Now().Sub(began), ran)
	return code, err
}
