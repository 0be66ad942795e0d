//go:build linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/registryimage"
)

// imageKind must change when the builder's images for an unchanged Dockerfile change.
const imageKind = "sandbox 1"

// ImageBuilder returns the builder that executes Dockerfiles in sandboxes, on base images from
// registries, and pushes the layers itself. It needs no engine and no root. cfg is
// environment.provider_config of the provider sandbox; base and images have no effect. Its Check
// opens the store.
func ImageBuilder(cfg map[string]any, opts Options) registryimage.Builder {
	cfg = maps.Clone(cfg)
	if cfg == nil {
		cfg = map[string]any{}
	}
	delete(cfg, "images")
	cfg["base"] = baseImage
	return &imageBuilder{config: cfg, opts: opts}
}

type imageBuilder struct {
	config map[string]any
	opts   Options

	mu sync.Mutex
	p  *Provider // nil: not opened
}

// Name implements registryimage.Builder.
func (*imageBuilder) Name() string { return registryimage.Sandbox }

// Kind implements registryimage.Builder. Where root is the only user, files have other owners.
func (b *imageBuilder) Kind() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.p != nil && b.p.store.mode == modeOne {
		return imageKind + " " + string(modeOne)
	}
	return imageKind
}

// Close implements registryimage.Builder.
func (b *imageBuilder) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.p == nil {
		return nil
	}
	return b.p.Close()
}

func (b *imageBuilder) provider(ctx context.Context) (*Provider, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.p != nil {
		return b.p, nil
	}
	p, err := openProvider(ctx, b.config, b.opts, "another builder: environment.provider_config.builder")
	if err != nil {
		return nil, err
	}
	p.fromRegistries = true
	if p.memoryOnly {
		return nil, &environment.Error{
			Kind: environment.KindUnavailable, Hint: diskHint(inPod()),
			Err: fmt.Errorf("images cannot be built here: the file system of %s cannot hold overlays", p.store.dir),
		}
	}
	b.p = p
	return p, nil
}

// Check implements registryimage.Builder.
func (b *imageBuilder) Check(ctx context.Context, platform string) (string, error) {
	own := "linux/" + runtime.GOARCH
	if platform != own && !strings.HasPrefix(platform, own+"/") {
		return "", fmt.Errorf("sandboxes of this machine run %s, and %s is wanted", own, platform)
	}
	p, err := b.provider(ctx)
	if err != nil {
		return "", err
	}
	switch p.store.mode {
	case modeOne:
		return "sandboxes of this machine, in which all files belong to root: newuidmap grants this user no other users", nil
	case modeIDs:
		return "sandboxes of this machine, as an ordinary user", nil
	}
	return "sandboxes of this machine, as root", nil
}

// Build implements registryimage.Builder.
func (b *imageBuilder) Build(ctx context.Context, req registryimage.Request) (string, error) {
	p, err := b.provider(ctx)
	if err != nil {
		return "", err
	}
	img, err := p.build(ctx, req.BuildOptions)
	if err != nil {
		return "", err
	}
	layers, err := p.exports(img)
	if err != nil {
		return "", &environment.Error{Kind: environment.KindBuild, Err: fmt.Errorf("build %s: %w", req.Name, err)}
	}
	return req.Push(ctx, registryimage.PushOptions{Base: img.Origin, Layers: layers, Change: img.settings})
}

// exports returns the layers that an image adds to its image in the registry.
func (p *Provider) exports(img *image) ([]registryimage.Layer, error) {
	if img.Host != nil {
		return nil, errors.New("an image on this machine's root cannot be pushed")
	}
	var layers []registryimage.Layer
	for _, id := range img.Layers[img.OriginLayers:] {
		root := p.store.path("l", id, rootPart)
		if !exists(root) {
			continue // the step has changed nothing
		}
		layers = append(layers, registryimage.Layer{Open: func(ctx context.Context) (io.ReadCloser, error) {
			r, w := io.Pipe()
			go func() { w.CloseWithError(p.store.mode.exportLayer(ctx, root, w)) }()
			return r, nil
		}})
	}
	return layers, nil
}

// settings applies the image's configuration over that of its base.
func (img *image) settings(s *registryimage.Settings) {
	if !slices.Equal(s.Entrypoint, img.Entrypoint) {
		s.Cmd = nil // as ENTRYPOINT does
	}
	s.Entrypoint, s.Env, s.User, s.WorkingDir = img.Entrypoint, img.Env, img.User, img.WorkDir
	s.Shell, s.Healthcheck = img.Shell, img.Healthcheck
	if s.Labels == nil {
		s.Labels = map[string]string{}
	}
	s.Labels[environment.LabelJob] = "build"
}
