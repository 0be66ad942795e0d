// Package images makes the image of each task once for all trials of a job.
package images

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/awake"
)

// Store holds the images of a job's tasks. It keeps failures, too: a broken Dockerfile fails all
// its trials after one build. Only if another try may succeed, the next trial tries again. Its
// methods may be called by many goroutines.
type Store struct {
	provider   environment.Provider
	forceBuild bool

	mu     sync.Mutex
	images map[*task.Task]*image
}

// NewStore returns the store of one job. With forceBuild, images are built without the provider's
// cache, and a Dockerfile is used even if the task names an image.
func NewStore(p environment.Provider, forceBuild bool) *Store {
	return &Store{provider: p, forceBuild: forceBuild, images: map[*task.Task]*image{}}
}

// image is the image of a task. Its fields may be read after done is closed.
type image struct {
	done chan struct{}
	ref  string
	id   string // "" if it is unknown
	err  error
	// abandoned is set if making the image was cancelled, so that its state is unknown.
	abandoned bool
}

// ErrNotDefined reports a task that has neither a Dockerfile nor the name of an image.
var ErrNotDefined = errors.New("the task has neither environment/Dockerfile nor environment.docker_image in task.toml: add one of them")

// Get returns the reference of a task's image. It makes the image, unless an earlier call did, or
// waits for another call that is making it. timeout limits the time of this call's own build or
// pull; a call that waits ends with ctx.
func (s *Store) Get(ctx context.Context, t *task.Task, timeout time.Duration, progress func(string)) (string, error) {
	for {
		entry, mine := s.entry(t)
		if mine {
			s.build(ctx, entry, t, timeout, progress)
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

// entry returns the task's image. If mine is true, the caller has to make it.
func (s *Store) entry(t *task.Task) (entry *image, mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry, ok := s.images[t.ImageOf()]
	if !ok {
		entry = &image{done: make(chan struct{})}
		s.images[t.ImageOf()] = entry
	}
	return entry, !ok
}

func (s *Store) build(ctx context.Context, entry *image, t *task.Task, timeout time.Duration, progress func(string)) {
	defer func() {
		entry.abandoned = entry.err != nil && ctx.Err() != nil
		if entry.abandoned || environment.IsTransient(entry.err) || environment.MachineFault(entry.err) != nil {
			s.mu.Lock()
			delete(s.images, t.ImageOf())
			s.mu.Unlock()
		}
		close(entry.done)
	}()
	entry.err = errors.New("making the image was interrupted by a crash") // if make panics
	entry.ref, entry.err = s.make(ctx, t, timeout, progress)
	if entry.err == nil {
		entry.id, _ = environment.ImageID(ctx, s.provider, entry.ref) // "" if it cannot be determined
	}
}

// ID returns the ID of the task's image whose reference is ref (environment.ImageID), or "" if it
// is unknown.
func (s *Store) ID(t *task.Task, ref string) string {
	s.mu.Lock()
	entry, ok := s.images[t.ImageOf()]
	s.mu.Unlock()
	if !ok {
		return ""
	}
	select {
	case <-entry.done:
	default:
		return "" // it is being made again
	}
	if entry.ref != ref {
		return ""
	}
	return entry.id
}

func (s *Store) make(ctx context.Context, t *task.Task, timeout time.Duration, progress func(string)) (string, error) {
	ctx, cancel := awake.WithTimeoutCause(ctx, timeout, environment.ErrTimeout)
	defer cancel()
	ref, err := s.request(ctx, t, progress)
	if err != nil && errors.Is(context.Cause(ctx), environment.ErrTimeout) {
		return "", fmt.Errorf("%w: %w", environment.ErrTimeout, err)
	}
	return ref, err
}

// Forget forgets the task's image whose reference is ref, so that the next trial of the task makes
// it again.
func (s *Store) Forget(t *task.Task, ref string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry, ok := s.images[t.ImageOf()]
	if !ok {
		return
	}
	select {
	case <-entry.done:
		if entry.ref == ref {
			delete(s.images, t.ImageOf())
		}
	default: // it is being made again
	}
}

// Pulls reports whether the task's image is pulled and not built.
func (s *Store) Pulls(t *task.Task) bool {
	return t.Config.Environment.DockerImage != "" && !(s.forceBuild && t.HasDockerfile())
}

// Check returns the reason why there will never be an image of the task, if the provider knows that
// before any trial (environment.ImageChecker).
func (s *Store) Check(ctx context.Context, t *task.Task) error {
	checker, ok := environment.As[environment.ImageChecker](s.provider)
	if !ok {
		return nil
	}
	if s.Pulls(t) {
		return checker.CheckPull(ctx, t.Config.Environment.DockerImage)
	}
	opts, err := s.buildOptions(t)
	if err != nil {
		return nil //nolint:nilerr // what is wrong with the task is reported elsewhere
	}
	return checker.CheckBuild(ctx, opts)
}

func (s *Store) request(ctx context.Context, t *task.Task, progress func(string)) (string, error) {
	if s.Pulls(t) {
		ref := t.Config.Environment.DockerImage
		return ref, s.provider.PullImage(ctx, ref, progress)
	}
	opts, err := s.buildOptions(t)
	if err != nil {
		return "", err
	}
	opts.Progress = progress
	return s.provider.BuildImage(ctx, opts)
}

func (s *Store) buildOptions(t *task.Task) (environment.BuildOptions, error) {
	if !t.HasDockerfile() {
		return environment.BuildOptions{}, ErrNotDefined
	}
	files, err := t.Environment()
	return environment.BuildOptions{Context: files, Name: t.Name, NoCache: s.forceBuild}, err
}
