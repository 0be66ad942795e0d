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
	images map[key]*image
}

// NewStore returns the store of one job. With forceBuild, images are built without the provider's
// cache, and a Dockerfile is used even if the task names an image.
func NewStore(p environment.Provider, forceBuild bool) *Store {
	return &Store{provider: p, forceBuild: forceBuild, images: map[key]*image{}}
}

// key identifies an image: that of a task, or of one of its services.
type key struct {
	task    *task.Task
	service string // "": the task's
}

func imageOf(t *task.Task) key { return key{task: t.ImageOf()} }

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
	return s.get(ctx, imageOf(t), timeout, func(ctx context.Context) (string, error) { return s.request(ctx, t, progress) })
}

// get returns the reference of an image, which request makes.
func (s *Store) get(ctx context.Context, of key, timeout time.Duration, request requestFunc) (string, error) {
	for {
		entry, mine := s.entry(of)
		if mine {
			s.build(ctx, entry, of, timeout, request)
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

// requestFunc makes an image, or finds it.
type requestFunc func(context.Context) (ref string, err error)

// entry returns an image. If mine is true, the caller has to make it.
func (s *Store) entry(of key) (entry *image, mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry, ok := s.images[of]
	if !ok {
		entry = &image{done: make(chan struct{})}
		s.images[of] = entry
	}
	return entry, !ok
}

func (s *Store) build(ctx context.Context, entry *image, of key, timeout time.Duration, request requestFunc) {
	defer func() {
		entry.abandoned = entry.err != nil && ctx.Err() != nil
		if entry.abandoned || environment.IsTransient(entry.err) || environment.MachineFault(entry.err) != nil {
			s.mu.Lock()
			delete(s.images, of)
			s.mu.Unlock()
		}
		close(entry.done)
	}()
	entry.err = errors.New("making the image was interrupted by a crash") // if make panics
	entry.ref, entry.err = makeWithin(ctx, timeout, request)
	if entry.err == nil {
		entry.id, _ = environment.ImageID(ctx, s.provider, entry.ref) // "" if it cannot be determined
	}
}

// ID returns the ID of the task's image whose reference is ref (environment.ImageID), or "" if it
// is unknown.
func (s *Store) ID(t *task.Task, ref string) string {
	s.mu.Lock()
	entry, ok := s.images[imageOf(t)]
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

func makeWithin(ctx context.Context, timeout time.Duration, request requestFunc) (string, error) {
	ctx, cancel := awake.WithTimeoutCause(ctx, timeout, environment.ErrTimeout)
	defer cancel()
	ref, err := request(ctx)
	if err != nil && errors.Is(context.Cause(ctx), environment.ErrTimeout) {
		return "", fmt.Errorf("%w: %w", environment.ErrTimeout, err)
	}
	return ref, err
}

// Forget forgets the task's image whose reference is ref, and those of its services, so that the
// next trial of the task makes them again.
func (s *Store) Forget(t *task.Task, ref string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for of, entry := range s.images {
		if of.task != t.ImageOf() {
			continue
		}
		select {
		case <-entry.done:
			if entry.ref == ref || of.service != "" {
				delete(s.images, of)
			}
		default: // it is being made again
		}
	}
}

// Pulls reports whether the task's image is pulled and not built.
func (s *Store) Pulls(t *task.Task) bool { return s.pulls(t) != "" }

// pulls returns the reference of the task's image if it is pulled, otherwise "". An image that
// docker-compose.yaml gives main counts if there is nothing to build.
func (s *Store) pulls(t *task.Task) string {
	own := t.Services().MainImage()
	switch builds := own.Build != nil || t.HasDockerfile(); {
	case s.forceBuild && builds:
		return ""
	case t.Config.Environment.DockerImage != "":
		return t.Config.Environment.DockerImage
	case builds:
		return ""
	}
	return own.Ref
}

// Check returns the reason why there will never be an image of the task, if the provider knows that
// before any trial (environment.ImageChecker).
func (s *Store) Check(ctx context.Context, t *task.Task) error {
	checker, ok := environment.As[environment.ImageChecker](s.provider)
	if !ok {
		return nil
	}
	if ref := s.pulls(t); ref != "" {
		return checker.CheckPull(ctx, ref)
	}
	opts, err := s.buildOptions(t)
	if err != nil {
		return nil //nolint:nilerr // what is wrong with the task is reported elsewhere
	}
	return checker.CheckBuild(ctx, opts)
}

func (s *Store) request(ctx context.Context, t *task.Task, progress func(string)) (string, error) {
	if ref := s.pulls(t); ref != "" {
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
	if own := t.Services().MainImage(); own.Build != nil {
		return s.serviceBuild(t, "", *own.Build)
	}
	if !t.HasDockerfile() {
		return environment.BuildOptions{}, ErrNotDefined
	}
	files, err := t.Environment()
	return environment.BuildOptions{Context: files, Name: t.Name, NoCache: s.forceBuild}, err
}
