package trial

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/internal/task"
)

// images makes each task's image once for all trials of a job. A failure is remembered too: a broken
// Dockerfile fails all its trials after one build.
type images struct {
	provider   environment.Provider
	forceBuild bool

	mu   sync.Mutex
	made map[*task.Task]*image
}

// image is one being made; its fields may be read after done is closed.
type image struct {
	done chan struct{}
	ref  string
	err  error
}

var errNoImage = errors.New("the task has neither environment/Dockerfile nor environment.docker_image in task.toml: add one of them")

// get returns the reference of the task's image, made by this call, by an earlier one, or by one that
// is under way. The limit counts for the maker; those who wait obey ctx.
func (im *images) get(ctx context.Context, t *task.Task, limit time.Duration, progress func(string)) (string, error) {
	im.mu.Lock()
	if im.made == nil {
		im.made = map[*task.Task]*image{}
	}
	if entry, ok := im.made[t]; ok {
		im.mu.Unlock()
		select {
		case <-entry.done:
			return entry.ref, entry.err
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	entry := &image{done: make(chan struct{})}
	im.made[t] = entry
	im.mu.Unlock()

	defer close(entry.done)
	entry.err = errors.New("making the image was interrupted by a crash") // unless make returns
	entry.ref, entry.err = im.make(ctx, t, limit, progress)
	return entry.ref, entry.err
}

func (im *images) make(ctx context.Context, t *task.Task, limit time.Duration, progress func(string)) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, environment.ErrTimeout)
	defer cancel()
	ref, err := im.request(ctx, t, progress)
	if err != nil && context.Cause(ctx) == environment.ErrTimeout {
		return "", fmt.Errorf("%w: %w", environment.ErrTimeout, err)
	}
	return ref, err
}

func (im *images) request(ctx context.Context, t *task.Task, progress func(string)) (string, error) {
	ref := t.Config.Environment.DockerImage
	switch {
	case ref == "" && !t.HasDockerfile():
		return "", errNoImage
	case ref != "" && !(im.forceBuild && t.HasDockerfile()):
		return ref, im.provider.PullImage(ctx, ref, progress)
	}
	files, err := t.Environment()
	if err != nil {
		return "", err
	}
	return im.provider.BuildImage(ctx, environment.BuildOptions{
		Context:  files,
		Name:     t.Name,
		NoCache:  im.forceBuild,
		Progress: progress,
	})
}
