package modal

import (
	"cmp"
	"context"
	"fmt"
	"time"

	sdk "github.com/modal-labs/modal-client/go"
	"google.golang.org/grpc/codes"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/hosted"
	"github.com/org/rollout-action/providers/internal/podinit"
)

const (
	// maxLifetime is the longest timeout of a sandbox.
	// Source: https://modal.com/docs/guide/sandbox.
	maxLifetime = 24 * time.Hour
	// cleanupGrace is how long the removal of something half-made may take.
	cleanupGrace = 10 * time.Second
)

// CreateEnvironment implements environment.Provider.
func (p *Provider) CreateEnvironment(ctx context.Context, opts environment.CreateOptions) (environment.Environment, error) {
	if err := hosted.CheckNetwork(opts.Network); err != nil {
		return nil, err
	}
	image, err := p.find(ctx, opts.Image)
	if err == nil {
		err = environment.CheckVolumes(image.settings.Volumes)
	}
	if err == nil {
		image, err = p.make(ctx, image, environment.KindStart, nil)
	}
	if err != nil {
		return nil, err
	}
	params, err := p.params(opts)
	if err != nil {
		return nil, err
	}
	sandbox, err := p.create(ctx, image, params)
	if codeOf(err) == codes.InvalidArgument && opts.Limits != (environment.Limits{}) {
		return nil, &environment.Error{Kind: environment.KindResources, Err: fmt.Errorf("create a sandbox: %w", plain(err)), Hint: "lower the cpus, memory or gpus of the task, or override_cpus and override_memory"}
	}
	if err != nil {
		return nil, failed(ctx, environment.KindStart, "create a sandbox", err)
	}
	env := &sandboxEnv{p: p, sandbox: sandbox, labels: opts.Labels, network: opts.Network, installer: hosted.Installer{Program: p.program}}
	env.Environment = &hosted.Environment{
		Name: "sandbox " + env.ID(), Limits: opts.Limits, Since: time.Now(),
		Price: func(d time.Duration) float64 { return p.config.price.of(opts.Limits, d) },
	}
	env.Environment.Environment, err = podinit.Start(ctx, env.dial, podinit.Options{
		Image: hosted.GuestImage(image.settings), Env: opts.Env, Files: opts.Files, Network: opts.Network, Explain: env.explain, Dial: p.options.Dial,
	})
	if err != nil {
		return nil, discard(ctx, sandbox, err)
	}
	return env, nil
}

// params returns the parameters of a sandbox. Requests are limits, too, so that a trial has the
// same machine each time.
func (p *Provider) params(opts environment.CreateOptions) (*sdk.SandboxCreateParams, error) {
	l := opts.Limits
	if opts.Lifetime > maxLifetime {
		return nil, &environment.Error{
			Kind: environment.KindResources, Err: fmt.Errorf("the trial may take %s, and a sandbox of Modal lives at most %s", opts.Lifetime, maxLifetime),
			Hint: "lower the timeouts of the task or the job",
		}
	}
	const megabyte = 1 << 20
	lists := allowed(opts.Network)
	params := &sdk.SandboxCreateParams{
		Command: []string{"/bin/sh", "-c", hosted.AwaitGuest}, Workdir: "/",
		CPU: float64(l.MilliCPUs) / 1000, CPULimit: float64(l.MilliCPUs) / 1000,
		MemoryMiB: int((l.Memory + megabyte - 1) / megabyte), MemoryLimitMiB: int((l.Memory + megabyte - 1) / megabyte),
		Timeout:               (cmp.Or(opts.Lifetime, maxLifetime) + time.Second - 1).Truncate(time.Second),
		OutboundCIDRAllowlist: lists.cidrs, OutboundDomainAllowlist: lists.domains,
		Regions: p.config.regions, Verbose: p.config.verbose, Tags: hosted.TagsOf(opts.Labels),
	}
	if l.GPUs > 0 {
		params.GPU = fmt.Sprintf("%s:%d", gpuType(l.GPUTypes), l.GPUs)
	}
	return params, nil
}

// create creates a sandbox. If ctx ends, none is left behind.
func (p *Provider) create(ctx context.Context, image image, params *sdk.SandboxCreateParams) (*sdk.Sandbox, error) {
	longer, end := hosted.Longer(ctx)
	defer end()
	sandbox, err := p.client.Sandboxes.Create(longer, p.app, image.made, params)
	if err == nil && ctx.Err() != nil {
		return nil, discard(ctx, sandbox, ctx.Err())
	}
	return sandbox, err
}

// discard removes the remains of a failed creation and returns its error.
func discard(ctx context.Context, sandbox *sdk.Sandbox, failure error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupGrace)
	defer cancel()
	if err := terminate(ctx, sandbox); err != nil {
		return fmt.Errorf("%w; and then: %w", failure, plain(err))
	}
	return failure
}
