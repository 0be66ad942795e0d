package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	corev1 "k8s.io/api/core/v1"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/podinit"
	"github.com/org/rollout-action/providers/internal/registryimage"
)

// BuildImage implements environment.Provider: the image is built, and pushed to the registry of the
// configuration.
func (p *Provider) BuildImage(ctx context.Context, opts environment.BuildOptions) (string, error) {
	if err := p.checkRegistry(); err != nil {
		return "", err
	}
	return p.images.Build(ctx, opts)
}

func (p *Provider) checkRegistry() error {
	if p.config.registry == "" {
		return unavailable("set environment.provider_config.registry, such as ghcr.io/org/evals: what the cluster runs must be in a registry; or set environment.docker_image in task.toml to an image that is in one",
			"there is no registry for images of Dockerfiles")
	}
	return nil
}

// CheckBuild implements environment.ImageChecker.
func (p *Provider) CheckBuild(ctx context.Context, opts environment.BuildOptions) error {
	if err := p.checkRegistry(); err != nil {
		return err
	}
	return p.wrongPlatform(p.images.CheckBuild(ctx, opts))
}

// CheckPull implements environment.ImageChecker: an image must be for the nodes. Whether nodes can
// pull it is not known.
func (p *Provider) CheckPull(ctx context.Context, ref string) error {
	if _, err := p.images.Config(ctx, ref); errors.Is(err, registryimage.ErrPlatform) {
		return p.wrongPlatform(err)
	}
	return nil
}

// wrongPlatform adds a hint to the error of an image that is not for the nodes of this job.
func (p *Provider) wrongPlatform(err error) error {
	if known := new(environment.Error); errors.Is(err, registryimage.ErrPlatform) && errors.As(err, &known) {
		own := *known
		own.Hint = fmt.Sprintf("pods of this job run on nodes for linux/%s: use an image for them, or choose others with node_selector: {%s: ARCHITECTURE}", p.config.architecture(), corev1.LabelArchStable)
		return &own
	}
	return err
}

// PullImage implements environment.Provider: it checks that the registry has the image. Nodes pull
// it when they need it.
func (p *Provider) PullImage(ctx context.Context, ref string, _ func(string)) error {
	_, err := p.images.Config(ctx, ref)
	return err
}

// ImageID implements environment.ImageIdentifier.
func (p *Provider) ImageID(ctx context.Context, ref string) (string, error) {
	image, err := p.settings(ctx, ref)
	return image.Digest, err
}

// settings returns the description and configuration of an image.
func (p *Provider) settings(ctx context.Context, ref string) (registryimage.Image, error) {
	image, err := p.images.Config(ctx, ref)
	if errors.Is(err, fs.ErrNotExist) {
		return registryimage.Image{}, &environment.Error{
			Kind: environment.KindStart, Err: fmt.Errorf("%w: %w", environment.ErrNoImage, err),
		}
	}
	return image, err
}

// wrapped adds the operation to an error, and kind to an error without one.
func wrapped(kind environment.Kind, doing string, err error) error {
	var known *environment.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return fmt.Errorf("%s: %w", doing, err)
	}
	return &environment.Error{Kind: kind, Err: fmt.Errorf("%s: %w", doing, err)}
}

// guestImage returns the settings of an image that the guest needs.
func guestImage(i registryimage.Image) podinit.Image {
	g := podinit.Image{Env: i.Env, User: i.User, WorkDir: i.WorkingDir, Entrypoint: i.Entrypoint}
	if h := i.Healthcheck; h != nil {
		g.Healthcheck = environment.NewHealthcheck(h.Test, i.Shell, environment.Healthcheck{
			Interval: h.Interval, Timeout: h.Timeout, StartPeriod: h.StartPeriod, StartInterval: h.StartInterval, Retries: h.Retries,
		})
	}
	return g
}

// helperImage returns the reference of the image with Rollout's own program: the one that is
// configured, or this very program, pushed to the configuration's registry, or else the published
// one of this version.
func (p *Provider) helperImage(ctx context.Context) (string, error) {
	switch {
	case p.config.helperImage != "":
		return p.config.helperImage, nil
	case p.config.registry != "":
		return p.helper.get(ctx, nil, func(ctx context.Context, _ func(string)) (string, error) { return p.pushHelper(ctx) })
	case p.options.HelperImage != "":
		return p.options.HelperImage, nil
	}
	return "", errNoHelper
}

var errNoHelper = unusable("set environment.provider_config.registry, such as ghcr.io/org/evals, to which Rollout pushes it, or helper_image",
	"there is no image with Rollout's own program, which runs in each pod")
