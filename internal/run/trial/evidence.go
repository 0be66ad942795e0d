package trial

import (
	"cmp"
	"context"
	"io"
	"slices"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/judge"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/excerpt"
	"github.com/org/rollout-action/internal/run/trial/failure"
	"github.com/org/rollout-action/internal/run/trial/judging"
	"github.com/org/rollout-action/internal/run/trial/services"
	"github.com/org/rollout-action/internal/run/trial/timing"
)

// isMain reports whether a service that a task names is main, in which the agent works.
func isMain(service string) bool {
	return cmp.Or(service, environment.MainService) == environment.MainService
}

// collectState runs the commands of the task's verifier.collect in main, or those in the other
// services, in their order. Failures are warnings.
func collectState(ctx context.Context, x *execution, main bool) {
	if x.live == nil || !x.NoError() && !x.AgentFailed() {
		return
	}
	for _, c := range x.spec.Task.Config.Verifier.Collect {
		if isMain(c.Service) != main {
			continue
		}
		if ctx.Err() != nil {
			return
		}
		trouble := &excerpt.Ends{Size: 1 << 10}
		code, err := runCollect(ctx, x, c, trouble)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			x.Warn("verifier.collect: %q failed: %s", c.Command, failure.Brief(err, x.Secrets))
		case code != 0:
			x.Warn("verifier.collect: %q ended with exit code %d: %s", c.Command, code, trouble)
		}
	}
}

// runCollect runs a command of verifier.collect, in its service.
func runCollect(ctx context.Context, x *execution, c task.Collect, stderr io.Writer) (int, error) {
	in, err := services.Container(x.live.env, c.Service)
	if err != nil {
		return -1, err
	}
	opts := environment.ExecOptions{User: string(c.User), Stdout: io.Discard, Stderr: stderr, Timeout: timing.Scaled(x.job, c.TimeoutSec)}
	if isMain(c.Service) {
		opts.Env, opts.WorkDir = x.commandEnv(), x.spec.Task.Config.Environment.WorkDir
	}
	return in.Exec(ctx, c.Command, opts)
}

// readsServices reports whether a trial reads the state of services other than main when the agent
// has ended.
func readsServices(x *execution) bool {
	return x.spec.Again == nil && (slices.ContainsFunc(x.spec.Task.Config.Verifier.Collect, func(c task.Collect) bool { return !isMain(c.Service) }) ||
		slices.ContainsFunc(wantedBy(x), func(a task.Artifact) bool { return !isMain(a.Service) }))
}

// keepServices runs the commands of verifier.collect in the services other than main, and keeps
// their artifacts, after main's. If main is not needed afterwards, it is stopped before: then what
// the agent left running there cannot change that state while it is read. Without that, nothing is
// read. Source: Harbor 0.26, src/harbor/trial/trial.py, _collect_artifacts_phased.
func keepServices(ctx context.Context, x *execution) {
	if !readsServices(x) || x.live == nil || !x.NoError() && !x.AgentFailed() || ctx.Err() != nil {
		return
	}
	if isLastUse(x) && !stopMain(ctx, x) {
		return
	}
	collectState(ctx, x, false)
	keepArtifactsOf(ctx, x, false)
}

// isLastUse reports whether nothing needs main of the agent's environment after its files are kept:
// the tests run in another one, and no step of the task and no judge follows there.
func isLastUse(x *execution) bool {
	if x.tests.plan == nil || x.tests.needed {
		return false
	}
	leaves := !x.job.Verifier.Disable && x.mayVerify()
	return leaves || !judgedInTrial(x.spec)
}

// judgedInTrial reports whether judges work in the trial's environment.
func judgedInTrial(s Spec) bool {
	return slices.ContainsFunc(s.Judges, func(j judging.Judge) bool { return j.Place() == judge.InTrial })
}

// stopMain stops main of the agent's environment, after it has copied the agent's logs. If that
// fails, the tests do not run, because what the agent left running may change what they would see;
// Harbor only warns.
func stopMain(ctx context.Context, x *execution) bool {
	x.collectAgent(ctx)
	x.tests.noMain = true
	c, cancel := x.Cleanup(ctx, timing.TeardownTimeout, timing.TeardownGrace)
	defer cancel()
	x.tests.unstopped = environment.StopMain(c, x.live.env)
	if x.tests.unstopped != nil {
		x.Warn("the state of services is not kept, because main could not be stopped: %s", failure.Brief(x.tests.unstopped, x.Secrets))
		return false
	}
	return true
}
