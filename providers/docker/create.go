package docker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/system"

	"github.com/org/rollout-action/internal/core/environment"
)

const (
	namePrefix = "rollout-"
	keptPrefix = "rollout-kept-" // set by Stop, for labels cannot change

	// cleanupGrace is how long the removal of something half-made may take. The engine itself waits
	// for ten seconds and more for the end of a container that it has killed.
	cleanupGrace = time.Minute
	// createGrace is how long a creation is waited for that is not wanted any more: an engine
	// cannot be told to stop it, and a container that it still creates must be removed.
	createGrace = 3 * time.Second
)

// CreateEnvironment implements environment.Provider.
func (p *Provider) CreateEnvironment(ctx context.Context, opts environment.CreateOptions) (environment.Environment, error) {
	limits, err := p.grant(opts.Limits)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, failed(environment.KindStart, "create container", err)
	}
	if err := p.config.checkCopies(opts.Files); err != nil {
		return nil, err
	}
	if _, err := p.config.policy(opts.Network); err != nil {
		return nil, err
	}
	noteUse(opts.Image)
	name := namePrefix + strings.ToLower(rand.Text()[:16])
	env, err := p.create(ctx, name, opts, limits, nil)
	if err == nil {
		err = env.begin(ctx, opts)
	}
	if err != nil {
		return nil, p.discard(ctx, name, p.config.hintAtConfig(err))
	}
	return env, nil
}

// shape changes the settings of a container before it is created.
type shape func(*container.Config, *container.HostConfig) *network.NetworkingConfig

func (p *Provider) create(ctx context.Context, name string, opts environment.CreateOptions, limits granted, as shape) (*containerEnv, error) {
	image, err := p.settingsOf(ctx, opts.Image)
	if err == nil {
		err = environment.CheckVolumes(image.volumes)
	}
	if err != nil {
		return nil, err
	}
	longer, done := withGrace(ctx)
	defer done()
	id, err := p.createContainer(longer, name, opts, limits, as)
	if err != nil && limits.storage > 0 && ctx.Err() == nil && !isConnection(err) && !cerrdefs.IsNotFound(err) {
		// Perhaps for that limit; if so, it works without.
		limits.storage, limits.unenforced = 0, append(limits.unenforced, "storage")
		if id, err = p.createContainer(longer, name, opts, limits, as); err == nil {
			p.noStorage.Store(true)
		}
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, p.notCreated(ctx, opts.Image, err)
	}
	connected := opts.Network.Public() && p.config.network != networkNone
	return &containerEnv{
		p: p, id: id, image: opts.Image, settings: image, variables: len(opts.Env) > 0, unenforced: limits.unenforced, connected: connected,
	}, nil
}

func (p *Provider) createContainer(ctx context.Context, name string, opts environment.CreateOptions, limits granted, as shape) (string, error) {
	host := &container.HostConfig{
		NetworkMode: p.config.networkMode(opts.Network),
		Runtime:     p.config.runtime,
		Mounts:      p.config.mounts,
		Resources:   limits.resources,
		SecurityOpt: p.securityOptions(),
		LogConfig:   logsOf(p.info),
	}
	if limits.storage > 0 {
		host.StorageOpt = map[string]string{"size": strconv.FormatInt(limits.storage, 10)}
	}
	config := &container.Config{
		Image:  opts.Image,
		Cmd:    environment.Idle(),
		Env:    environ(opts.Env),
		Labels: opts.Labels.Map(),
		// The engine's health checks would disturb measurements. Callers run the image's check
		// themselves.
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
	}
	var in *network.NetworkingConfig
	if as != nil {
		in = as(config, host)
	}
	created, err := p.api.ContainerCreate(ctx, config, host, in, nil, name)
	if isUnreadable(err) && len(host.SecurityOpt) > 0 { // an engine elsewhere, whose own profile is kept
		p.noProfile.Store(true)
		return p.createContainer(ctx, name, opts, limits, as)
	}
	return created.ID, err
}

// logsOf bounds the size of the container's log, where the engine's logs are files.
func logsOf(info system.Info) container.LogConfig {
	switch driver := info.LoggingDriver; driver {
	case "json-file", "local":
		return container.LogConfig{Type: driver, Config: map[string]string{"max-size": "1m", "max-file": "1"}}
	}
	return container.LogConfig{} // the engine's own
}

// notCreated returns the error of a creation that failed.
func (p *Provider) notCreated(ctx context.Context, ref string, err error) error {
	err = failed(environment.KindStart, "create container", err)
	var e *environment.Error
	if cerrdefs.IsNotFound(err) && errors.As(err, &e) {
		present, asked := p.hasImage(ctx, ref)
		if asked == nil && !present {
			e.Err = fmt.Errorf("%w: %w", environment.ErrNoImage, e.Err)
			e.Hint = "it was neither built nor pulled on this engine, or it has been removed since"
		}
	}
	// Anything else that does not exist is named by the configuration. The container's name is
	// unique, so a conflict passes.
	if (cerrdefs.IsNotFound(err) && !errors.Is(err, environment.ErrNoImage) && !p.config.names() || cerrdefs.IsConflict(err)) && errors.As(err, &e) {
		e.Transient = true
	}
	return err
}

// withGrace returns a context that ends createGrace after ctx does.
func withGrace(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-longer.Done():
		case <-time.After(createGrace):
			cancel()
		}
	})
	return longer, func() { stop(); cancel() }
}

// begin puts the files in place, starts the container, and opens its tunnel if its network needs
// one.
func (e *containerEnv) begin(ctx context.Context, opts environment.CreateOptions) error {
	files := opts.Files
	if opts.Network.Mode == environment.NetworkAllowlist {
		relay, err := e.p.relayFiles()
		if err != nil {
			return err
		}
		files, e.tunnel.copied = append(slices.Clip(files), relay), true
	}
	if err := persist(ctx, func() error { return e.upload(ctx, files) }); err != nil {
		return failed(environment.KindStart, "copy into the new container", err)
	}
	// One that has started already is no error.
	err := persist(ctx, func() error { return e.p.api.ContainerStart(ctx, e.id, container.StartOptions{}) })
	if err == nil {
		if err := e.SetNetwork(ctx, opts.Network); err != nil {
			return err
		}
		return e.awaitEntrypoint(ctx)
	}
	if none := noGPU(opts.Limits, err); none != nil {
		return none
	}
	err = failed(environment.KindStart, "start container", err)
	var refused *environment.Error
	switch {
	case !errors.As(err, &refused):
	case isMissingUser(err):
		refused.Hint = fmt.Sprintf("the image lacks the user or the group of its USER, %s: the Dockerfile must add it", e.settings.user)
	case cerrdefs.IsInvalidArgument(err):
		refused.Hint = "the image needs bash in its PATH, and an ENTRYPOINT that can be run if it has one"
	case e.settings.user != "" && refused.Hint == "":
		refused.Hint = fmt.Sprintf("the image must have bash and its USER, %s, and its ENTRYPOINT must run the command that it is given", e.settings.user)
	}
	return err
}

// discard removes the remains of a failed creation and returns its error.
func (p *Provider) discard(ctx context.Context, name string, failure error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupGrace)
	defer cancel()
	if err := p.remove(ctx, name); err != nil {
		return fmt.Errorf("%w; and then: %w", failure, err)
	}
	return failure
}

// environ returns variables as KEY=value strings, sorted; the last value of a name wins.
func environ(some ...map[string]string) []string {
	env := map[string]string{}
	for _, m := range some {
		maps.Copy(env, m)
	}
	list := make([]string, 0, len(env))
	for _, key := range slices.Sorted(maps.Keys(env)) {
		list = append(list, key+"="+env[key])
	}
	return list
}
