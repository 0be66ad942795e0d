package trial

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/awake"
	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/internal/task"
)

// images makes each task's image once for all trials of a job. A failure is remembered too: a broken
// Dockerfile fails all its trials after one build. Only what another try may mend is tried again, by
// the next trial that comes.
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
	id   string // environment.Provider.ImageID; "" if it is not known
	err  error
	// abandoned: its maker was cancelled, so that nothing is known about the image.
	abandoned bool
}

var errNoImage = errors.New("the task has neither environment/Dockerfile nor environment.docker_image in task.toml: add one of them")

// get returns the reference of the task's image, made by this call, by an earlier one, or by one that
// is under way. The limit counts for the maker; those who wait obey ctx.
func (im *images) get(ctx context.Context, t *task.Task, limit time.Duration, progress func(string)) (string, error) {
	for {
		entry, mine := im.entry(t)
		if mine {
			im.build(ctx, entry, t, limit, progress)
			return entry.ref, entry.err
		}
		select {
		case <-entry.done:
		case <-ctx.Done():
			return "", ctx.Err()
		}
		if !entry.abandoned {
			return entry.ref, entry.err
		}
	}
}

// entry is the task's image; mine means that the caller has to fill it.
func (im *images) entry(t *task.Task) (entry *image, mine bool) {
	im.mu.Lock()
	defer im.mu.Unlock()
	if im.made == nil {
		im.made = map[*task.Task]*image{}
	}
	entry, ok := im.made[t]
	if !ok {
		entry = &image{done: make(chan struct{})}
		im.made[t] = entry
	}
	return entry, !ok
}

func (im *images) build(ctx context.Context, entry *image, t *task.Task, limit time.Duration, progress func(string)) {
	defer func() {
		entry.abandoned = entry.err != nil && ctx.Err() != nil
		if entry.abandoned || environment.IsTransient(entry.err) || environment.MachineFault(entry.err) != nil {
			im.mu.Lock()
			delete(im.made, t)
			im.mu.Unlock()
		}
		close(entry.done)
	}()
	entry.err = errors.New("making the image was interrupted by a crash") // unless make returns
	entry.ref, entry.err = im.make(ctx, t, limit, progress)
	if entry.err == nil {
		entry.id, _ = environment.ImageID(ctx, im.provider, entry.ref) // says more of a trial, if it can be said
	}
}

// id is the content of the image that ref is the reference of and the task's trials are made of; "" if it is not known.
func (im *images) id(t *task.Task, ref string) string {
	im.mu.Lock()
	entry, ok := im.made[t]
	im.mu.Unlock()
	if !ok {
		return ""
	}
	select {
	case <-entry.done:
	default:
		return "" // it is being made anew
	}
	if entry.ref != ref {
		return ""
	}
	return entry.id
}

func (im *images) make(ctx context.Context, t *task.Task, limit time.Duration, progress func(string)) (string, error) {
	ctx, cancel := awake.WithTimeoutCause(ctx, limit, environment.ErrTimeout)
	defer cancel()
	ref, err := im.request(ctx, t, progress)
	if err != nil && errors.Is(context.Cause(ctx), environment.ErrTimeout) {
		return "", fmt.Errorf("%w: %w", environment.ErrTimeout, err)
	}
	return ref, err
}

// forget makes the next trial of the task make its image anew.
func (im *images) forget(t *task.Task, ref string) {
	im.mu.Lock()
	defer im.mu.Unlock()
	entry, ok := im.made[t]
	if !ok {
		return
	}
	select {
	case <-entry.done:
		if entry.ref == ref {
			delete(im.made, t)
		}
	default: // it is being made anew already
	}
}

// pulls reports whether the task's image is a ready-made one.
func (im *images) pulls(t *task.Task) bool {
	return t.Config.Environment.DockerImage != "" && !(im.forceBuild && t.HasDockerfile())
}

func (im *images) request(ctx context.Context, t *task.Task, progress func(string)) (string, error) {
	ref := t.Config.Environment.DockerImage
	switch {
	case im.pulls(t):
		return ref, im.provider.PullImage(ctx, ref, progress)
	case !t.HasDockerfile():
		return "", errNoImage
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
