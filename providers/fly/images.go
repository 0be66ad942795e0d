package fly

import (
	"context"
	"errors"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/hosted"
)

// PullImage implements environment.Provider: Fly pulls an image when a machine begins.
func (p *Provider) PullImage(ctx context.Context, ref string, _ func(string)) error {
	_, err := p.images.Find(ctx, ref)
	return hosted.FailedPull(err)
}

// ImageID implements environment.ImageIdentifier.
func (p *Provider) ImageID(ctx context.Context, ref string) (string, error) {
	found, err := p.images.Find(ctx, ref)
	return found.Digest, err
}

// CheckPull implements environment.ImageChecker.
func (p *Provider) CheckPull(ctx context.Context, ref string) error {
	return p.images.CheckPull(ctx, ref)
}

// CheckBuild implements environment.ImageChecker: Fly builds nothing, so images need a registry.
func (p *Provider) CheckBuild(ctx context.Context, opts environment.BuildOptions) error {
	if p.options.Images == nil && p.config.registry == "" {
		return &environment.Error{
			Kind: environment.KindUnavailable, Refused: true, Err: errors.New("the task has a Dockerfile, and Fly builds no images"),
			Hint: "set environment.provider_config.registry to where images may be pushed, or docker_image in the task",
		}
	}
	return p.images.CheckBuild(ctx, opts)
}

// BuildImage implements environment.Provider: the image is built here and pushed.
func (p *Provider) BuildImage(ctx context.Context, opts environment.BuildOptions) (string, error) {
	if err := p.CheckBuild(ctx, opts); err != nil {
		return "", err
	}
	return p.images.Build(ctx, opts)
}
