package registryimage

import (
	"context"

	"github.com/org/rollout-action/internal/environment"
)

// The names of builders, in the order in which they are tried.
const (
	Docker         = "docker"
	BuildKitDaemon = "buildkit"
	Sandbox        = "sandbox"
)

// Builder builds Dockerfiles and pushes the images. Its methods are safe for concurrent use.
type Builder interface {
	// Name returns one of the names above.
	Name() string

	// Kind distinguishes builders that build different images from the same Dockerfile: it is part of images' keys. It changes
	// when the builder begins to build other images than before.
	Kind() string

	// Check returns a few words about the builder, or why it cannot be used. It returns within seconds.
	Check(ctx context.Context) (about string, err error)

	// Build builds an image, pushes it to the target and returns the digest of its manifest.
	Build(ctx context.Context, req Request) (digest string, err error)

	// Close releases connections.
	Close() error
}

// Request is one image to build and push.
type Request struct {
	environment.BuildOptions
	// Target is REGISTRY/NAME:KEY.
	Target string
	// Platform is as in Config.
	Platform string
	// PlainHTTP: Target's registry is to be spoken to without TLS if it has none.
	PlainHTTP bool
	// Push pushes an image to Target, for builders that cannot do so themselves, and returns the digest of its manifest. Name and
	// Key are not used.
	Push func(context.Context, PushOptions) (digest string, err error)
}
