package images

import (
	"context"
	"time"

	"github.com/org/rollout-action/internal/core/compose"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/task"
)

// Service returns the reference of the image of a task's service, as Get does for the task.
func (s *Store) Service(ctx context.Context, t *task.Task, name string, timeout time.Duration, progress func(string)) (string, error) {
	image := t.Services().Images[name]
	if image.Ref == "" && image.Build == nil {
		return s.Get(ctx, t, timeout, progress)
	}
	return s.get(ctx, key{t.ImageOf(), name}, timeout, func(ctx context.Context) (string, error) {
		if image.Build == nil {
			return image.Ref, s.provider.PullImage(ctx, image.Ref, progress)
		}
		opts, err := s.serviceBuild(t, name, *image.Build)
		if err != nil {
			return "", err
		}
		opts.Progress = progress
		return s.provider.BuildImage(ctx, opts)
	})
}

// serviceBuild returns the options of a build that docker-compose.yaml describes; name is "" for
// main.
func (s *Store) serviceBuild(t *task.Task, name string, b compose.Build) (environment.BuildOptions, error) {
	files, err := b.Files(t.FS)
	if name != "" {
		name = "-" + name
	}
	return environment.BuildOptions{Context: files, Name: t.Name + name, NoCache: s.forceBuild, Args: b.Args}, err
}
