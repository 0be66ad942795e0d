package hosted

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/podinit"
	"github.com/org/rollout-action/providers/internal/registryimage"
)

// ImageSource is the subset of *registryimage.Images that providers use.
type ImageSource interface {
	Config(ctx context.Context, ref string) (registryimage.Image, error)
	Build(ctx context.Context, opts environment.BuildOptions) (string, error)
	CheckBuild(ctx context.Context, opts environment.BuildOptions) error
	Close() error
}

// Images describes images of registries to a provider.
type Images struct{ ImageSource }

// OpenImages returns the images of registries for machines of an architecture, as Go names it. own,
// if not nil, takes the place of the registries. Fails with KindUnavailable.
func OpenImages(own ImageSource, goarch string, cfg registryimage.Config) (Images, error) {
	if own != nil {
		return Images{own}, nil
	}
	cfg.Platform = "linux/" + goarch
	images, err := registryimage.New(cfg)
	if err != nil {
		return Images{}, &environment.Error{Kind: environment.KindUnavailable, Err: fmt.Errorf("use the registry %s: %w", cfg.Registry, err)}
	}
	return Images{images}, nil
}

// Find returns an image; ErrNoImage if its registry has none of this name.
func (i Images) Find(ctx context.Context, ref string) (registryimage.Image, error) {
	found, err := i.Config(ctx, ref)
	if errors.Is(err, fs.ErrNotExist) {
		return found, &environment.Error{Kind: environment.KindStart, Err: fmt.Errorf("%w: %w", environment.ErrNoImage, err)}
	}
	return found, err
}

// CheckPull implements environment.ImageChecker: an image must be for the service's machines.
func (i Images) CheckPull(ctx context.Context, ref string) error {
	if _, err := i.Config(ctx, ref); errors.Is(err, registryimage.ErrPlatform) {
		return err
	}
	return nil
}

// FailedPull returns the error of a start as that of a pull.
func FailedPull(err error) error {
	if known := new(environment.Error); errors.As(err, &known) && known.Kind == environment.KindStart {
		own := *known
		own.Kind = environment.KindPull
		return &own
	}
	return err
}

// GuestImage returns the settings of an image that the guest needs.
func GuestImage(s registryimage.Settings) podinit.Image {
	g := podinit.Image{Env: s.Env, User: s.User, WorkDir: s.WorkingDir, Entrypoint: s.Entrypoint}
	if h := s.Healthcheck; h != nil {
		g.Healthcheck = environment.NewHealthcheck(h.Test, s.Shell, environment.Healthcheck{
			Interval: h.Interval, Timeout: h.Timeout, StartPeriod: h.StartPeriod, StartInterval: h.StartInterval, Retries: h.Retries,
		})
	}
	return g
}
