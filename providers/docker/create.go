package docker

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/org/rollout-action/internal/environment"
)

const (
	namePrefix = "rollout-"
	keptPrefix = "rollout-kept-" // set by Stop, for labels cannot change

	// cleanupGrace is how long the removal of something half-made may take.
	cleanupGrace = 30 * time.Second
	// createGrace is how long a creation is waited for that is not wanted any more: an engine cannot
	// be told to stop it, and what it makes in the end must be removed.
	createGrace = 10 * time.Second
)

// idle is what a container does between scripts. bash reaps the orphans that scripts leave; its
// wait ends when somebody kills the sleep, and it gives up if there is no sleep to be had.
const idle = "while :; do sleep 2147483647 & wait $!; [ $? != 127 ] || exit 127; done"

// CreateEnvironment implements environment.Provider. The image's ENTRYPOINT is kept, for the services
// that it starts are part of the environment; it must run its arguments in the end, as is the custom.
func (p *Provider) CreateEnvironment(ctx context.Context, opts environment.CreateOptions) (environment.Environment, error) {
	resources, unenforced, err := p.resources(opts.Limits)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, failed(environment.KindStart, "create container", err)
	}
	name := namePrefix + strings.ToLower(rand.Text()[:16])
	env, err := p.create(ctx, name, opts, resources)
	if err == nil {
		env.unenforced = unenforced
		err = env.begin(ctx, opts.Files)
	}
	if err != nil {
		return nil, p.discard(ctx, name, err)
	}
	return env, nil
}

func (p *Provider) create(ctx context.Context, name string, opts environment.CreateOptions, resources container.Resources) (*containerEnv, error) {
	patient, done := outlive(ctx, createGrace)
	defer done()
	created, err := p.api.ContainerCreate(patient,
		&container.Config{
			Image:  opts.Image,
			Cmd:    []string{"bash", "-c", idle},
			Env:    environ(opts.Env),
			Labels: opts.Labels.Map(),
			// Nobody reads the health, and a probe would run beside what is measured.
			Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
		},
		&container.HostConfig{
			NetworkMode: container.NetworkMode(p.config.network),
			Runtime:     p.config.runtime,
			Mounts:      p.config.mounts,
			Resources:   resources,
		}, nil, nil, name)
	if cerrdefs.IsNotFound(err) {
		return nil, &environment.Error{
			Kind: environment.KindStart,
			Hint: "the image is not on this engine; it was neither built nor pulled",
			Err:  fmt.Errorf("create container: %w", err),
		}
	}
	if err != nil {
		return nil, failed(environment.KindStart, "create container", err)
	}
	if err := ctx.Err(); err != nil {
		return nil, failed(environment.KindStart, "create container", err)
	}
	return &containerEnv{p: p, id: created.ID}, nil
}

// outlive is a context that ends grace after ctx does.
func outlive(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-longer.Done():
		case <-time.After(grace):
			cancel()
		}
	})
	return longer, func() { stop(); cancel() }
}

// begin puts the files in place and starts the container.
func (e *containerEnv) begin(ctx context.Context, files []environment.Copy) error {
	if err := e.put(ctx, files); err != nil {
		return failed(environment.KindStart, "copy into the new container", err)
	}
	if err := e.p.api.ContainerStart(ctx, e.id, container.StartOptions{}); err != nil {
		return failed(environment.KindStart, "start container", err)
	}
	return nil
}

// discard removes what a failed creation may have left and returns its error.
func (p *Provider) discard(ctx context.Context, name string, failure error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupGrace)
	defer cancel()
	if err := p.remove(ctx, name); err != nil {
		return fmt.Errorf("%w; and then: %w", failure, err)
	}
	return failure
}

// environ is env as KEY=value strings, sorted.
func environ(env map[string]string) []string {
	list := make([]string, 0, len(env))
	for _, key := range slices.Sorted(maps.Keys(env)) {
		list = append(list, key+"="+env[key])
	}
	return list
}
