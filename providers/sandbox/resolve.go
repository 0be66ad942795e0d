//go:build linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/docker/docker/client"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/sandbox/internal/oci"
)

// dialTimeout is short, so that without a network this machine's root is used soon.
const dialTimeout = 5 * time.Second

// scratchRef is the image without files. Source: Docker's reference for FROM.
const scratchRef = "scratch"

// resolve returns the image that a reference names, or the substitute that provider_config.base
// asks for. The reference has no builtPrefix.
func (p *Provider) resolve(ctx context.Context, ref string, progress func(string)) (*image, error) {
	if ref == scratchRef {
		return &image{ID: scratchRef}, nil
	}
	if p.config.base == baseHost {
		return p.hostImage(ctx, ref, "the job file says base: host", progress)
	}
	img, err := p.realImage(ctx, ref, progress)
	switch {
	case err == nil:
		return img, nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("look for image %s: %w", ref, ctx.Err())
	case p.config.base == baseImage || !errors.Is(err, oci.ErrUnreachable):
		return nil, pullFailed(err)
	}
	return p.hostImage(ctx, ref, err.Error(), progress)
}

// pullFailed returns the environment.Error for an error of oci.Find.
func pullFailed(err error) error {
	e := &environment.Error{Kind: environment.KindPull, Err: err}
	if errors.Is(err, oci.ErrUnreachable) {
		e.Transient = true
		e.Hint = "docker save it to a file and name that in environment.provider_config.images, or let this machine's root stand in with base: auto"
	}
	return e
}

// realImage finds an image and unpacks its layers. As with Docker, a pulled image is not looked for
// in a registry again.
func (p *Provider) realImage(ctx context.Context, ref string, progress func(string)) (*image, error) {
	known, err := p.readImage(ref)
	if err != nil || p.fromRegistries && known.Origin == "" {
		known = nil
	}
	temporary, err := p.store.draft()
	if err != nil {
		return nil, err
	}
	defer temporary.discard()
	where := oci.FindOptions{Local: p.config.images, TempDir: temporary.dir, Registry: known == nil, DialTimeout: dialTimeout}
	if !p.fromRegistries {
		if engine := dockerEngine(ctx); engine != nil {
			defer engine.Close()
			where.Docker = engine
		}
	}
	found, err := oci.Find(ctx, ref, where)
	if err != nil && known != nil {
		return known, nil
	}
	if err != nil {
		return nil, err
	}
	defer found.Close()
	if known != nil && known.ID == found.ID {
		return known, nil
	}
	img := &image{
		ID: found.ID, Name: ref, Env: found.Config.Env, WorkDir: found.Config.WorkingDir, User: found.Config.User, Volumes: found.Config.Volumes,
		Entrypoint: found.Config.Entrypoint, Shell: found.Config.Shell, Healthcheck: found.Config.Healthcheck,
		Origin: found.Origin, OriginLayers: len(found.Layers),
	}
	for i, layer := range found.Layers {
		id := digest("oci " + layer.DiffID)
		if !exists(p.store.path("l", id)) {
			progress(fmt.Sprintf("unpacking layer %d of %d of %s from %s", i+1, len(found.Layers), ref, found.Source))
		}
		if err := p.store.layer(ctx, id, func(dir string) error { return p.unpack(ctx, layer, dir) }); err != nil {
			return nil, fmt.Errorf("unpack image %s from %s: %w", ref, found.Source, err)
		}
		img.Layers = append(img.Layers, id)
	}
	return img, p.recordImage(ref, img)
}

func (p *Provider) unpack(ctx context.Context, layer oci.Layer, dir string) error {
	root := dir + "/" + rootPart
	if err := os.Mkdir(root, 0o755); err != nil {
		return err
	}
	stream, err := layer.Open(ctx)
	if err != nil {
		return err
	}
	defer stream.Close()
	return p.store.mode.unpack(ctx, stream, root)
}

// dockerSocket is where an engine listens by default, without DOCKER_HOST.
const dockerSocket = "/var/run/docker.sock"

// pingTimeout bounds how long an engine may take to answer.
const pingTimeout = 2 * time.Second

// dockerEngine returns a client of this machine's Docker engine, or nil if no engine answers this
// user.
func dockerEngine(ctx context.Context) *client.Client {
	if os.Getenv("DOCKER_HOST") == "" && !exists(dockerSocket) {
		return nil
	}
	engine, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	if _, err := engine.Ping(ctx); err != nil {
		engine.Close()
		return nil
	}
	return engine
}
