package registryimage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	dockerspec "github.com/moby/docker-image-spec/specs-go/v1"

	"github.com/org/rollout-action/providers/internal/distribution"
	"github.com/org/rollout-action/providers/internal/flight"
)

// Config configures Images.
type Config struct {
	// Registry is where images go: "ghcr.io/org/evals" puts them into repositories below that. If
	// it is empty, only Config works. See CheckRegistry.
	Registry string
	// PlainHTTP allows HTTP without TLS for Registry. It is always allowed for localhost and
	// 127.0.0.0/8.
	PlainHTTP bool
	// Platform is what the machines run, "linux/amd64" or "linux/arm64/v8".
	Platform string
	// Builder is the name of a builder: docker, buildkit or sandbox. If it is empty, the first in
	// this order that can be used is used.
	Builder string
	// BuildKit is how to reach a buildkitd. Without an address, that builder cannot be used.
	BuildKit BuildKit
	// Builders are those that other packages implement, as the table of providers has them.
	Builders []Builder

	// pause waits between attempts to reach a registry; nil: longer and longer.
	pause func(ctx context.Context, nth int, atLeast time.Duration) error
}

// BuildKit is how to reach a buildkitd.
type BuildKit struct {
	// Address is tcp://HOST:PORT, unix://PATH, docker-container://NAME or
	// kube-pod://NAME?context=CONTEXT&namespace=NAMESPACE.
	Address string
	// CACert, Cert and Key are files for TLS with tcp://. ServerName is what the certificate is
	// for, by default the host.
	CACert, Cert, Key, ServerName string
}

// CheckRegistry returns an error if a value of Config.Registry is invalid.
func CheckRegistry(prefix string) error {
	const form = "want HOST/PATH, such as ghcr.io/org/evals"
	host, _, _ := strings.Cut(prefix, "/")
	switch {
	case strings.HasSuffix(prefix, "/"):
		return errors.New("it ends in a slash: " + form)
	case strings.Contains(prefix, "://"):
		return fmt.Errorf("leave out %q: %s", prefix[:strings.Index(prefix, "://")+3], form)
	case !strings.ContainsAny(host, ".:") && host != "localhost":
		return fmt.Errorf("%q is not a registry's host: %s", host, form)
	}
	if _, err := name.NewRepository(prefix+"/x", name.StrictValidation); err != nil {
		return fmt.Errorf("%s: %w", form, err)
	}
	return nil
}

// Images makes images in a registry, and reads them. Its methods are safe for concurrent use. Their
// errors are *environment.Error: KindPull for what the registry refuses (Transient if it may change
// its mind: limits of rate, failures), KindUnavailable if no builder can be used.
type Images struct {
	config   Config
	platform v1.Platform
	builders []Builder // the names of the package's constants, in their order
	client   *distribution.Client
	flights  flight.Group

	mu      sync.Mutex
	builder Builder // once one was found
	about   string
	known   map[string]Image  // by reference
	built   map[string]string // the digests of images, by what was asked for
	pushes  map[string]bool   // repositories that take images
}

// New returns Images for a configuration. It sends no requests.
func New(c Config) (*Images, error) {
	if c.Registry != "" {
		if err := CheckRegistry(c.Registry); err != nil {
			return nil, fmt.Errorf("registry %q: %w", c.Registry, err)
		}
	}
	platform, err := v1.ParsePlatform(c.Platform)
	if err != nil || platform.OS == "" || platform.Architecture == "" {
		return nil, fmt.Errorf("%q is not a platform: want OS/ARCHITECTURE, such as linux/amd64", c.Platform)
	}
	i := &Images{config: c, platform: *platform, known: map[string]Image{}, built: map[string]string{}, pushes: map[string]bool{}}
	i.client = distribution.NewClient(distribution.Options{Attempts: attempts, Pause: c.pause, PlainHTTP: i.plainHTTP})
	if c.Builder != "" && !slices.Contains(BuilderNames, c.Builder) {
		return nil, fmt.Errorf("%q is not a builder: there is %s", c.Builder, strings.Join(BuilderNames, ", "))
	}
	all := append(slices.Clone(c.Builders), newBuildKit(i, c.BuildKit))
	for _, named := range BuilderNames {
		for _, b := range all {
			if b.Name() == named && (c.Builder == "" || c.Builder == named) {
				i.builders = append(i.builders, b)
			}
		}
	}
	return i, nil
}

// attempts is how often a registry is asked that fails or limits the rate.
const attempts = 5

// Close releases the connections of builders.
func (i *Images) Close() error {
	var errs []error
	for _, b := range i.builders {
		errs = append(errs, b.Close())
	}
	return errors.Join(errs...)
}

// plainHTTP reports whether a host may be spoken to without TLS.
func (i *Images) plainHTTP(host string) bool {
	own, _, _ := strings.Cut(i.config.Registry, "/")
	return distribution.IsLoopback(host) || i.config.PlainHTTP && host == own
}

// parse parses a reference as Docker does.
func (i *Images) parse(ref string) (name.Reference, error) {
	parsed, err := name.ParseReference(ref, name.WeakValidation)
	if err == nil && i.plainHTTP(parsed.Context().RegistryStr()) {
		parsed, err = name.ParseReference(ref, name.WeakValidation, name.Insecure)
	}
	return parsed, err
}

// Image is the description of an image in a registry.
type Image struct {
	// Ref is NAME@sha256:DIGEST of the image for the platform: it always names the same content.
	Ref string
	// Digest is "sha256:" and 64 digits, of the image's manifest.
	Digest string
	// Platform is OS/ARCHITECTURE[/VARIANT] from the image's configuration.
	Platform string
	// Size is how many bytes of compressed layers are pulled.
	Size int64

	Settings
}

// Settings are the parts of an image's configuration about its programs.
type Settings struct {
	Entrypoint, Cmd  []string
	Env              []string // NAME=value
	User, WorkingDir string   // "": the image does not say
	Shell            []string // of HEALTHCHECK in shell form; nil: /bin/sh -c
	Healthcheck      *dockerspec.HealthcheckConfig
	Labels           map[string]string
	Volumes          []string // sorted
}

// PushOptions describe an image to push: a base, and layers on it.
type PushOptions struct {
	// Base is an image in any registry. If it is empty, the image begins without files, and has
	// only the platform.
	Base string
	// Layers are put on the base, the bottom first.
	Layers []Layer
	// Change, if not nil, changes the settings, which are the base's.
	Change func(*Settings)
	// Name and Key name the image, REGISTRY/NAME:KEY. Name is for users; it is made safe. Key has
	// 16 hexadecimal digits or more.
	Name, Key string
	// Progress receives lines for users; may be nil.
	Progress func(string)
}

// Layer is one layer of an image.
type Layer struct {
	// Open returns an uncompressed tar archive, in the layer format of the OCI image specification:
	// ".wh." files mark removals. It is called several times and must return the same bytes each
	// time.
	Open func(ctx context.Context) (io.ReadCloser, error)
}
