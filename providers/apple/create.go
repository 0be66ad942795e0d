package apple

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/hosted"
	"github.com/org/rollout-action/providers/internal/podinit"
)

const (
	// cleanupGrace is how long the removal of something half-made may take.
	cleanupGrace = 30 * time.Second
	// leastMemory is the least that a container gets, in MiB.
	// Source: Sources/Services/ContainerAPIService/Server/Containers/ContainersService.swift.
	leastMemory = 200
)

// CreateEnvironment implements environment.Provider.
func (p *Provider) CreateEnvironment(ctx context.Context, opts environment.CreateOptions) (environment.Environment, error) {
	if err := hosted.CheckNetwork(opts.Network); err != nil {
		return nil, err
	}
	if err := p.checkLimits(opts.Limits); err != nil {
		return nil, err
	}
	image, err := p.find(ctx, opts.Image)
	if err == nil {
		err = environment.CheckVolumes(image.settings.Volumes)
	}
	if err != nil {
		return nil, p.failed(ctx, environment.KindStart, "look for image "+opts.Image, err)
	}
	env := &containerEnv{p: p, id: "rollout-" + strings.ToLower(rand.Text()), installer: hosted.Installer{Program: p.program}}
	env.Environment = &hosted.Environment{Name: "container " + env.id, Limits: opts.Limits}
	longer, end := hosted.Longer(ctx)
	_, err = p.command.run(longer, 1, nil, p.arguments(env.id, opts)...)
	end()
	if err = cmp.Or(ctx.Err(), err); err != nil {
		return nil, p.discard(ctx, env.id, p.failed(ctx, environment.KindStart, "create a container", err))
	}
	env.Environment.Environment, err = podinit.Start(ctx, env.dial, podinit.Options{
		Image: hosted.GuestImage(image.settings), Env: opts.Env, Files: opts.Files, Network: opts.Network, Explain: env.explain, Dial: p.options.Dial,
	})
	if err != nil {
		return nil, p.discard(ctx, env.id, err)
	}
	return env, nil
}

// checkLimits refuses limits that this machine cannot grant.
func (p *Provider) checkLimits(l environment.Limits) error {
	if _, err := environment.CheckGPUs(p, l); err != nil {
		return err
	}
	if cpus := wholeCPUs(l); cpus > int64(p.options.CPUs) {
		return &environment.Error{
			Kind: environment.KindResources, Err: fmt.Errorf("the task needs %d CPUs, and this machine has %d", cpus, p.options.CPUs),
			Hint: "lower the cpus of the task, or override_cpus",
		}
	}
	return nil
}

func wholeCPUs(l environment.Limits) int64 { return (l.MilliCPUs + 999) / 1000 }

// awaitGuest is the script of a container: it waits for the guest's program, and becomes it. A
// container has a namespace of processes, in which the script is the first one.
// Source: Sources/Containerization/LinuxContainer.swift of apple/containerization.
const awaitGuest = hosted.AwaitProgram + "[ $$ = 1 ] && exec " + podinit.Program + "\nexec " + podinit.Program + " " + podinit.Below

// arguments are those of the command that creates and starts a container. Values of variables are
// not among them: other users see arguments.
func (p *Provider) arguments(id string, opts environment.CreateOptions) []string {
	args := []string{
		"run", "--detach", "--name", id, "--progress", "none", "--platform", p.config.platform,
		"--uid", "0", "--gid", "0", "--workdir", "/", "--entrypoint", "/bin/sh",
	}
	cpus, memory := wholeCPUs(opts.Limits), (opts.Limits.Memory+1<<20-1)>>20
	if cpus == 0 {
		cpus = int64(min(p.config.cpus, p.options.CPUs))
	}
	if memory == 0 {
		memory = int64(p.config.memoryMB)
	}
	if cpus > 0 {
		args = append(args, "--cpus", strconv.FormatInt(cpus, 10))
	}
	if memory > 0 {
		args = append(args, "--memory", strconv.FormatInt(max(memory, leastMemory), 10)+"M")
	}
	if !opts.Network.Public() {
		args = append(args, "--network", "none")
	}
	tags := hosted.TagsOf(opts.Labels)
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		args = append(args, "--label", name+"="+tags[name])
	}
	return append(args, opts.Image, "-c", awaitGuest)
}

// discard removes the remains of a failed creation and returns its error.
func (p *Provider) discard(ctx context.Context, id string, failure error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupGrace)
	defer cancel()
	if err := p.delete(ctx, id); err != nil {
		return fmt.Errorf("%w; and then: %w", failure, err)
	}
	return failure
}
