package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/registry"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/buildcontext"
	"github.com/org/rollout-action/providers/internal/buildkit"
	"github.com/org/rollout-action/providers/internal/registryimage"
)

// ImageBuilder returns a builder that builds and pushes images with the Docker engine. It connects
// when it is checked.
func ImageBuilder() registryimage.Builder { return &imageBuilder{} }

type imageBuilder struct {
	mu sync.Mutex
	p  *Provider // nil: not connected
}

// Name implements registryimage.Builder.
func (*imageBuilder) Name() string { return registryimage.Docker }

// Kind implements registryimage.Builder.
func (*imageBuilder) Kind() string { return "" }

// Close implements registryimage.Builder.
func (b *imageBuilder) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.p == nil {
		return nil
	}
	err := b.p.Close()
	b.p = nil
	return err
}

// engine returns the connection.
func (b *imageBuilder) engine(ctx context.Context) (*Provider, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.p != nil {
		return b.p, nil
	}
	p, err := New(ctx, nil)
	if err != nil {
		return nil, err
	}
	b.p = p
	return p, nil
}

// Check implements registryimage.Builder.
func (b *imageBuilder) Check(ctx context.Context, platform string) (string, error) {
	p, err := b.engine(ctx)
	if err != nil {
		return "", err
	}
	about := p.Describe()
	if p.foreign(platform) == "" {
		return about, nil
	}
	switch buildkit, err := p.hasBuildKit(ctx); {
	case err != nil:
		return "", err
	case !buildkit:
		return "", fmt.Errorf("the %s runs on %s and has no BuildKit, so it cannot build for %s", about, p.platform(), platform)
	}
	return about + ", which has to emulate " + platform, nil
}

// platform returns the engine's platform in Go's terms.
func (p *Provider) platform() string {
	arch := p.info.Architecture
	switch arch { // as the kernel says it
	case "x86_64":
		arch = "amd64"
	case "aarch64":
		arch = "arm64"
	}
	return p.info.OSType + "/" + arch
}

// foreign returns platform if it is not the engine's own, else "".
func (p *Provider) foreign(platform string) string {
	own := p.platform()
	if platform == own || strings.HasPrefix(platform, own+"/") {
		return ""
	}
	return platform
}

// Build implements registryimage.Builder.
func (b *imageBuilder) Build(ctx context.Context, req registryimage.Request) (string, error) {
	p, err := b.engine(ctx)
	if err != nil {
		return "", err
	}
	tag := "rollout/" + buildcontext.ImageName(req.Name) + ":" + req.Digest[:tagDigits]
	present, err := p.hasImage(ctx, tag)
	if err != nil {
		return "", err
	}
	if !present || req.NoCache {
		build := buildRequest{
			tag: tag, digest: req.Digest, content: req.Definition, args: req.Args, noCache: req.NoCache, platform: p.foreign(req.Platform),
		}
		if err := p.build(ctx, build, req.Progress); err != nil {
			return "", err
		}
	}
	noteUse(tag)
	return p.push(ctx, tag, req)
}

// push has the engine push an image, and returns the digest of its manifest.
func (p *Provider) push(ctx context.Context, tag string, req registryimage.Request) (string, error) {
	doing := "push image " + req.Target
	config, err := credentials(ctx, req.Target)
	if err != nil {
		return "", wrapped(environment.KindPull, doing, err)
	}
	auth, err := registry.EncodeAuthConfig(config)
	if err != nil {
		return "", wrapped(environment.KindPull, doing, err)
	}
	defer lock(ctx, "push-"+req.Digest[:2])()
	if err := p.api.ImageTag(ctx, tag, req.Target); err != nil {
		return "", failed(environment.KindBuild, doing, err)
	}
	defer func() { // the image keeps its other name
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTimeout)
		defer cancel()
		_, _ = p.api.ImageRemove(ctx, req.Target, image.RemoveOptions{})
	}()
	req.Progress("pushing " + req.Target)
	out := buildkit.Lines{}
	var digest string
	body, err := p.api.ImagePush(ctx, req.Target, image.PushOptions{RegistryAuth: auth})
	if err == nil {
		err = readAnswers(body, &out, func(text json.RawMessage) {
			var result struct{ Digest string }
			if json.Unmarshal(text, &result) == nil && result.Digest != "" {
				digest = result.Digest
			}
		})
		body.Close()
	}
	if err != nil {
		return "", p.pushFailed(ctx, doing, req, err)
	}
	return digest, nil
}

// pushFailed returns the error of a push. Engines report the reasons of registries in words only;
// so the registry is asked from here.
func (p *Provider) pushFailed(ctx context.Context, doing string, req registryimage.Request, err error) error {
	if isContext(err) || ctx.Err() != nil || isConnection(err) {
		return failed(environment.KindPull, doing, err)
	}
	e := &environment.Error{Kind: environment.KindPull, Err: fmt.Errorf("%s: %w", doing, err)}
	known := new(environment.Error)
	switch reason := req.Explain(ctx, nil); {
	case errors.As(reason, &known):
		e.Transient, e.Hint = known.Transient, known.Hint
		e.Err = fmt.Errorf("%s: %w (%w)", doing, known.Err, err)
	case req.PlainHTTP:
		e.Hint = "the engine has to allow this registry without TLS, too: add it to insecure-registries of its daemon.json, or use another builder"
	default:
		e.Transient = true
		e.Hint = "the registry takes images from here now: the engine cannot reach it by this name, or it failed meanwhile"
	}
	return e
}
