package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/run/trial/failure"
	"github.com/org/rollout-action/internal/run/trial/images"
	"github.com/org/rollout-action/internal/run/trial/networks"
	"github.com/org/rollout-action/internal/run/trial/readiness"
	"github.com/org/rollout-action/internal/run/trial/timing"
)

// image makes the task's image available, notes it in the result and returns its reference.
func (x *agentRun) image(ctx context.Context) (string, error) {
	if err := x.possible(); err != nil {
		return "", err
	}
	pulled := x.images.Pulls(x.spec.Task)
	began := x.Now()
	ref, err := x.images.Get(ctx, x.spec.Task, x.timeouts.Build, x.Progress)
	x.Progress("")
	x.Trial.Durations.ImageSec = new(result.Seconds(x.Now().Sub(began)))
	if err != nil {
		return "", imageError(err, pulled)
	}
	x.Trial.Environment.Image, x.Trial.Environment.ImageID = ref, x.images.ID(x.spec.Task, ref)
	x.Trial.Environment.Network = networks.Record(x.networks)
	for _, warning := range networks.Warnings(x.job, x.spec.Task.Config, x.networks) {
		x.Warn("%s", warning)
	}
	if pulled && x.job.Environment.ForceBuild {
		x.Warn("force_build has no effect: the task has no environment/Dockerfile, so its docker_image is used")
	}
	return ref, nil
}

// setup makes the image and the environment.
func (x *agentRun) setup(ctx context.Context) error {
	ref, err := x.image(ctx)
	if err == nil && x.cachesInstall() {
		ref, err = x.findLayer(ctx, ref)
	}
	if err != nil {
		return err
	}
	return x.start(ctx, ref)
}

// start makes the environment from an image, the task's or a layer on it, and waits until it is
// ready. All files are copied before any command runs: one transfer instead of four.
func (x *agentRun) start(ctx context.Context, ref string) error {
	files, err := x.installFiles(), error(nil)
	if x.making == nil {
		files, err = x.files()
		if x.layer == nil {
			files = append(x.agentFiles(), files...)
		}
	}
	if err != nil {
		return err
	}
	if x.making == nil {
		mounted, err := x.mounted()
		if err != nil {
			return err
		}
		files = append(mounted, files...)
	}
	opts := environment.CreateOptions{Image: ref, Files: files, Network: x.initialNetwork(x.layer != nil)}
	create, err := x.creation(ctx)
	if err != nil {
		return err
	}
	err = x.begin(ctx, opts, create)
	if errors.Is(err, environment.ErrNoImage) {
		if x.layer != nil {
			x.layer.Drop()
		} else {
			x.images.Forget(x.spec.Task, ref)
		}
	}
	return err
}

// createFunc creates an environment, as CreateEnvironment of a provider does.
type createFunc func(context.Context, environment.CreateOptions) (environment.Environment, error)

// begin creates the environment with create, and waits until it is ready. opts holds the options
// that depend on how the trial begins.
func (x *agentRun) begin(ctx context.Context, opts environment.CreateOptions, create createFunc) error {
	limit, starting, stop := timing.NewStartLimit(ctx, timing.StartTimeout)
	defer stop()
	opts.Waiting = func(reason string) {
		limit.Wait(reason != "")
		x.Progress(reason)
	}
	opts.Lifetime = x.lifetime()
	network := opts.Network
	opts.Limits, opts.Env = x.limits(), x.environmentEnv()
	unchosen, err := environment.CheckGPUs(x.opts.Provider, opts.Limits)
	if err != nil {
		return err
	}
	opts.Labels = environment.Labels{Job: x.job.Name, Trial: x.spec.Key.String(), Run: x.opts.Run, Owner: x.owner}
	opts.Network = x.refusals.Counted(network) // of all phases
	env, err := create(starting, opts)
	if err != nil {
		if errors.Is(context.Cause(starting), timing.ErrSlowStart) {
			return failure.Newf(result.EnvironmentStartFailed, "%v: %v", timing.ErrSlowStart, err)
		}
		return err
	}
	x.live = &liveEnvironment{
		env: env, network: network,
		stop: x.DestroyOnCancel(ctx, env, x.job.Environment.PreserveEnv == config.PreserveAlways),
	}
	x.Trial.Environment.ID = env.ID()
	x.Trial.Environment.Unenforced = x.unenforced(environment.Unenforced(env))
	if unchosen {
		x.Trial.Environment.Unenforced = append(x.Trial.Environment.Unenforced, "gpu_types")
	}
	x.recordBase(environment.BaseOf(env))
	for _, needed := range neededNetworks(&x.plan) {
		if err := networks.CheckSwitches(env, network, needed, x.opts.Provider.Name()); err != nil {
			return err
		}
	}
	r := readiness.Check{Task: x.spec.Task.Config, Timeouts: x.timeouts, Env: env, Variables: x.commandEnv(), Secrets: x.Secrets}
	warning, err := r.Await(ctx)
	if warning != "" {
		x.Warn("%s", warning)
	}
	return err
}

// neededNetworks returns the networks that the environment needs one after the other: those of the
// trial, or of each step of its task.
func neededNetworks(p *plan) (all []task.Networks) {
	steps := p.spec.Task.Steps()
	if len(steps) == 0 {
		steps = []*task.Task{p.spec.Task}
	}
	for _, t := range steps {
		spec, needed := p.spec, p.networks
		if spec.Task = t; t.StepName() != "" {
			needed = spec.Networks(p.job)
		}
		if apart, _ := spec.apart(p.job); apart != nil { // the tests have another environment
			needed.Verify = needed.Agent
		}
		all = append(all, needed)
	}
	return all
}

// imageError returns the error of an image with a kind that distinguishes build and pull. The
// provider's own kind does not, if it cannot be reached or takes too long.
func imageError(err error, pulled bool) error {
	if errors.Is(err, images.ErrNotDefined) {
		return failure.Newf(result.TaskInvalid, "%v", err)
	}
	timedOut := errors.Is(err, environment.ErrTimeout)
	if !timedOut && (!pulled || environment.KindOf(err) != environment.KindUnavailable) {
		return err // not a failure of the build, which would be the task's
	}
	e := environment.Error{Err: err}
	if known := new(environment.Error); errors.As(err, &known) {
		e = *known
	}
	e.Hint = cmp.Or(e.Hint, failure.Remedies[e.Kind])
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
func (x *agentRun) environmentEnv() map[string]string {
	if x.making != nil {
		return nil
	}
	return x.spec.Task.EnvironmentEnv()
}

// commandEnv returns the variables that the environment lacks, and that each command in it gets
// instead.
func (x *agentRun) commandEnv() map[string]string {
	env := map[string]string{}
	if x.making != nil {
		maps.Copy(env, x.spec.Task.EnvironmentEnv())
	}
	return env
}
