package registryimage

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/buildcontext"
)

// The names of builders.
const (
	Docker         = "docker"
	BuildKitDaemon = "buildkit"
	Sandbox        = "sandbox"
)

// BuilderNames are the names of builders, in the order in which they are tried.
var BuilderNames = []string{Docker, BuildKitDaemon, Sandbox}

// Builder builds Dockerfiles and pushes the images. Its methods are safe for concurrent use.
type Builder interface {
	// Name returns one of BuilderNames.
	Name() string

	// Kind distinguishes builders that build different images from the same Dockerfile: it is part
	// of images' keys. It changes when the builder begins to build other images than before.
	// Builders that do as Docker does have none.
	Kind() string

	// Check returns a few words about the builder for a platform, or why it cannot be used. It
	// returns within seconds.
	Check(ctx context.Context, platform string) (about string, err error)

	// Build builds an image, pushes it to the target and returns the digest of its manifest.
	Build(ctx context.Context, req Request) (digest string, err error)

	// Close releases connections. It may be called without Check.
	Close() error
}

// Request is one image to build and push.
type Request struct {
	environment.BuildOptions
	// Definition is what Context has in it.
	Definition buildcontext.Definition
	// Digest identifies all that is built.
	Digest string
	// Target is REGISTRY/NAME:KEY.
	Target string
	// Platform is as in Config.
	Platform string
	// PlainHTTP: Target's registry may be spoken to without TLS, though it is not on the loopback
	// interface.
	PlainHTTP bool
	// Push pushes an image to Target, for builders that cannot do so themselves, and returns the
	// digest of its manifest. Name and Key are not used.
	Push func(context.Context, PushOptions) (digest string, err error)
	// Explain returns the reason why the target cannot be pushed to or, if it can be, why one of
	// the bases cannot be had; nil if all is well.
	Explain func(ctx context.Context, bases []string) error
}

// ErrNoBuilder is in the chain of the error if no builder can be used.
var ErrNoBuilder = errors.New("no builder of images can be used")

// Builder returns the name of the builder that Build uses, and a few words about it, such as
// "engine 28.1 at unix:///var/run/docker.sock". The error says for each builder why it cannot be
// used. The answer is remembered, an error is not.
func (i *Images) Builder(ctx context.Context) (name, about string, err error) {
	b, about, err := i.pick(ctx)
	if err != nil {
		return "", "", err
	}
	return b.Name(), about, nil
}

// pick returns the first builder that can be used.
func (i *Images) pick(ctx context.Context) (Builder, string, error) {
	i.mu.Lock()
	found, about := i.builder, i.about
	i.mu.Unlock()
	if found != nil {
		return found, about, nil
	}
	var reasons []string
	err := i.flights.Do(ctx, "builder", nil, func(ctx context.Context, _ func(string)) error {
		for _, b := range i.builders {
			about, err := b.Check(ctx, i.config.Platform)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err == nil {
				i.mu.Lock()
				i.builder, i.about = b, about
				i.mu.Unlock()
				return nil
			}
			reasons = append(reasons, b.Name()+": "+err.Error())
		}
		return noBuilder(i.config.Builder, reasons)
	})
	if err != nil {
		return nil, "", err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.builder, i.about, nil
}

func noBuilder(asked string, reasons []string) error {
	e := &environment.Error{Kind: environment.KindUnavailable, Err: fmt.Errorf("%w: %s", ErrNoBuilder, strings.Join(reasons, "; "))}
	switch {
	case asked != "" && len(reasons) == 0:
		e.Err = fmt.Errorf("%w: this build of rollout has no builder %s", ErrNoBuilder, asked)
	case asked == "":
		e.Hint = "start Docker, or name a buildkitd in environment.provider_config.buildkit, or run on Linux, where builder: sandbox needs neither"
	}
	return e
}
