package trial

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/run/trial/artifacts"
	"github.com/org/rollout-action/internal/run/trial/failure"
	"github.com/org/rollout-action/internal/run/trial/services"
	"github.com/org/rollout-action/internal/run/trial/timing"
)

// apart returns the task as the tests see it if they run in another environment than the agent, and
// whether the image has the tests; nil: they run in the agent's environment.
func (s Spec) apart(job config.Job) (t *task.Task, bundled bool) {
	return s.Task.Apart(job.Verifier.Environment == config.VerifierFresh)
}

// apart is the state of a trial whose tests run in another environment than its agent.
type apart struct {
	plan    *plan // that of the tests; nil: the tests run in the agent's environment
	bundled bool  // the image has the tests
	moved   bool  // the agent's environment has been left
	before  plan  // that of the agent, if moved
	unkept  *artifacts.Unkept
	// agents is the agent's environment after it was left: it is stopped, and preserve_env may keep
	// it. nil: it was removed.
	agents  environment.Environment
	running bool // agents could not be stopped
	stays   bool // the end of the trial ends the agent's environment: the tests are those of a step
	needed  bool // further steps of the task, or judges after them, need the agent's environment
	noMain  bool // main of the agent's environment has been stopped, after its logs were copied
	// unstopped is the error of stopping main; nil if it was stopped, or did not have to be.
	unstopped error
}

// newApart returns how the tests of a trial with the plan p run.
func newApart(p plan) apart {
	t, bundled := p.spec.apart(p.job)
	if t == nil {
		return apart{}
	}
	p.spec.Task, p.spec.Again = t, nil
	p.timeouts = timing.TimeoutsOf(p.job, t.Config)
	p.networks.Install, p.networks.Agent = p.networks.Verify, p.networks.Verify
	return apart{plan: &p, bundled: bundled}
}

// moveToTests ends the agent's environment and begins that of the tests, with the artifacts that
// were kept, if they run apart.
func (x *execution) moveToTests(ctx context.Context) error {
	if x.tests.plan == nil || x.tests.moved {
		return nil
	}
	if !x.artifactsKept { // before a visit
		collectState(ctx, x, true)
		x.keepArtifacts(ctx)
		keepServices(ctx, x)
	}
	if err := x.tests.unstopped; err != nil {
		return &environment.Error{Kind: environment.KindLost, Err: fmt.Errorf("main could not be stopped before the state of services is read: %w", err)}
	}
	if lost := x.tests.unkept; lost != nil {
		if lost.Err != nil {
			return fmt.Errorf("carry the artifact %s over to the tests: %w", lost.Source, lost.Err)
		}
		return failure.Newf(result.AgentExecutionFailed, "the tests run in another environment, and %s could not be carried over whole (see the warnings): "+
			"all artifacts together may have 1 GiB and %d files, and neither devices nor secrets in names", lost.Source, artifacts.MaxFiles)
	}
	carried, err := artifactCopies(os.DirFS(x.Dir), x.Trial.Artifacts)
	if err != nil {
		return err
	}
	if !x.tests.noMain { // else they were copied before
		x.collectAgent(ctx)
	}
	if err := x.leaveAgent(ctx); err != nil {
		return err
	}
	return x.beginTests(ctx, services.Into(x.tests.plan.spec.Task, carried))
}

// leaveAgent ends the agent's environment. If preserve_env may keep it, the end of the trial
// decides.
func (x *execution) leaveAgent(ctx context.Context) error {
	live := x.live
	if !x.tests.stays { // else the end of the trial keeps them
		keepServiceLogs(ctx, &x.agentRun)
	}
	x.tests.moved, x.tests.before, x.elsewhere = true, x.plan, true
	if x.tests.stays {
		x.live, x.marker = nil, nil
		return ctx.Err()
	}
	ended := live.stop()
	x.live, x.marker = nil, nil
	if x.job.Environment.PreserveEnv != config.PreserveNever {
		x.tests.agents = live.env
	}
	c, cancel := x.Cleanup(ctx, timing.TeardownTimeout, timing.TeardownGrace)
	defer cancel()
	var err error
	switch {
	case ended:
		err = ctx.Err()
	case x.tests.agents != nil:
		err = live.env.Stop(c)
		x.tests.running = err != nil
	default:
		err = live.env.Destroy(c)
	}
	x.NoteEnvironmentCost(live.env)
	return err
}

// beginTests makes the image and the environment of the tests.
func (x *execution) beginTests(ctx context.Context, carried []environment.Copy) error {
	x.plan, x.layer = *x.tests.plan, nil
	if err := x.possible(); err != nil {
		return err
	}
	pulled := x.images.Pulls(x.spec.Task)
	ref, err := x.images.Get(ctx, x.spec.Task, x.timeouts.Build, x.Progress)
	x.Progress("")
	if err != nil {
		return imageError(err, pulled)
	}
	create, err := x.creation(ctx)
	if err != nil {
		return err
	}
	mounted, err := x.mounted()
	if err != nil {
		return err
	}
	opts := environment.CreateOptions{Image: ref, Files: slices.Concat(mounted, x.logDirs(), carried), Network: x.networks.Verify}
	of, made := x.Trial.Environment, &result.Environment{}
	x.Trial.Environment = made
	defer func() { // also when a provider panics
		of.Verifier = &result.VerifierEnvironment{
			ID: made.ID, Image: ref, ImageID: x.images.ID(x.spec.Task, ref), Unenforced: made.Unenforced, Base: made.Base,
		}
		x.Trial.Environment = of
	}()
	err = x.begin(ctx, opts, create)
	if errors.Is(err, environment.ErrNoImage) {
		x.images.Forget(x.spec.Task, ref)
	}
	return err
}

// teardown ends the environments. Of tests that ran apart, the agent's is the one that preserve_env
// may keep.
func (x *execution) teardown(ctx context.Context) {
	if !x.tests.moved {
		x.agentRun.teardown(ctx)
		return
	}
	keepServiceLogs(ctx, &x.agentRun)
	x.end(ctx, func(c context.Context) error {
		var err error
		if x.live != nil {
			err = x.live.env.Destroy(c)
			x.NoteEnvironmentCost(x.live.env)
		}
		switch {
		case x.tests.agents == nil:
		case !x.tests.running && x.preserve(x.job.Environment.PreserveEnv, x.startOver != nil):
			x.Trial.Environment.Preserved = true
		default:
			err = errors.Join(err, x.tests.agents.Destroy(c))
		}
		return err
	})
}
