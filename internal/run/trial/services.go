package trial

import (
	"context"
	"io"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/trial/failure"
	"github.com/org/rollout-action/internal/run/trial/services"
	"github.com/org/rollout-action/internal/run/trial/timing"
)

// possible returns the reason why the provider can never run the task, or nil: its images are not
// made then.
func (x *agentRun) possible() error {
	if err := services.Check(x.opts.Provider, x.spec.Task, x.networks); err != nil {
		return err
	}
	_, err := environment.CheckGPUs(x.opts.Provider, x.limits())
	return err
}

// creation returns the function that creates an environment of the task, with its services. It
// makes their images. The task must be possible.
func (x *agentRun) creation(ctx context.Context) (createFunc, error) {
	if !services.Needed(x.spec.Task) {
		return x.opts.Provider.CreateEnvironment, nil
	}
	s, err := services.Maker{Images: x.images, Timeout: x.timeouts.Build, Progress: x.Progress}.Prepare(ctx, x.spec.Task, x.networks)
	x.Progress("")
	if err != nil {
		return nil, imageError(err, false)
	}
	s.Log = serviceLog(x)
	return func(ctx context.Context, opts environment.CreateOptions) (environment.Environment, error) {
		return environment.CreateWithServices(ctx, x.opts.Provider, opts, s)
	}, nil
}

// serviceLog returns a function that keeps logs of services in the trial's directory.
func serviceLog(x *agentRun) environment.ServiceLog {
	dir := result.ServicesDir
	if x.elsewhere {
		dir += "/" + result.VerifierServices
	}
	return func(service string, output io.Reader) {
		kept, err := x.Capture(dir + "/" + service + result.LogSuffix)
		if err == nil {
			defer x.Release(kept)
			_, err = io.Copy(kept, output)
		}
		if err != nil {
			x.Warn("the log of service %s could not be kept: %s", service, failure.Brief(err, x.Secrets))
		}
	}
}

// keepServiceLogs keeps the logs of the services of x, if its environment has some.
func keepServiceLogs(ctx context.Context, x *agentRun) {
	if x.live == nil || x.startOver != nil || !services.Needed(x.spec.Task) {
		return
	}
	c, cancel := x.Cleanup(ctx, timing.CollectTimeout, timing.CollectGrace)
	defer cancel()
	if err := services.Logs(c, x.live.env, serviceLog(x)); err != nil && ctx.Err() == nil {
		x.Warn("%s", failure.Brief(err, x.Secrets))
	}
}
