package hosted

import (
	"context"

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
