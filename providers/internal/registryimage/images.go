package registryimage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	dockerspec "github.com/moby/docker-image-spec/specs-go/v1"

	"github.com/org/rollout-action/internal/environment"
)

// Config configures Images.
type Config struct {
	// Registry is where images go: "ghcr.io/org/evals" puts them into repositories below that. If it is empty, only Config works.
	// See CheckRegistry.
	Registry string
	// PlainHTTP allows HTTP without TLS for Registry. It is always allowed for localhost and 127.0.0.0/8.
	PlainHTTP bool
	// Platform is what the machines run, "linux/amd64" or "linux/arm64/v8".
	Platform string
	// Builder is the name of a builder: docker, buildkit or sandbox. If it is empty, the first in this order that can be used is
	// used.
	Builder string
	// BuildKit is how to reach a buildkitd. Without an address, that builder cannot be used.
	BuildKit BuildKit
	// Builders are those that other packages implement, as the table of providers has them.
	Builders []Builder
}

// BuildKit is how to reach a buildkitd.
type BuildKit struct {
	// Address is tcp://HOST:PORT, unix://PATH, docker-container://NAME or kube-pod://NAME?context=CONTEXT&namespace=NAMESPACE.
	Address string
	// CACert, Cert and Key are files for TLS with tcp://. ServerName is what the certificate is for, by default the host.
	CACert, Cert, Key, ServerName string
}

// CheckRegistry returns what is wrong with a value of Config.Registry, or nil.
func CheckRegistry(prefix string) error { return errors.ErrUnsupported }

// Images makes images in a registry, and reads them. Its methods are safe for concurrent use. Their errors are
// *environment.Error: KindPull for what the registry refuses (Transient if it may change its mind: limits of rate, failures),
// KindUnavailable if no builder can be used.
type Images struct{ config Config }

// New returns Images for a configuration. It asks nobody.
func New(c Config) (*Images, error) { return &Images{config: c}, nil }

// Builder returns the name of the builder that Build uses, and says in about one sentence why it is that one, such as
// "docker (engine 28.1 at unix:///var/run/docker.sock)". The error says for each builder why it cannot be used. The answer is
// remembered, an error is not.
func (i *Images) Builder(ctx context.Context) (name, about string, err error) {
	return "", "", errors.ErrUnsupported
}

// CheckPush returns why images cannot be pushed to the registry with the credentials that there are, or nil. It pushes nothing.
func (i *Images) CheckPush(ctx context.Context) error { return errors.ErrUnsupported }

// Build implements environment.Provider's BuildImage: it returns REGISTRY/NAME@sha256:DIGEST. The image also has the tag
// REGISTRY/NAME:KEY; the key is a digest of the Dockerfile, its context, the arguments, the platform and the kind of builder. An
// image that the registry has under the key is not built again, unless NoCache. Callers who want the same build share it.
//
// It fails with KindBuild if the definition is wrong.
func (i *Images) Build(ctx context.Context, opts environment.BuildOptions) (ref string, err error) {
	return "", errors.ErrUnsupported
}

// Image is the description of an image in a registry.
type Image struct {
	// Ref is NAME@sha256:DIGEST of the image for the platform: what is pulled by it never changes.
	Ref string
	// Digest is "sha256:" and 64 digits, of the image's manifest.
	Digest string
	// Platform is OS/ARCHITECTURE[/VARIANT] as the image's configuration has it.
	Platform string
	// Size is how many bytes of compressed layers are pulled.
	Size int64

	Settings
}

// Settings are what an image's configuration says about the programs in it.
type Settings struct {
	Entrypoint, Cmd  []string
	Env              []string // NAME=value
	User, WorkingDir string   // "": the image does not say
	Shell            []string // of HEALTHCHECK in shell form; nil: /bin/sh -c
	Healthcheck      *dockerspec.HealthcheckConfig
	Labels           map[string]string
	Volumes          []string // sorted
}

// Config returns the description of an image from its registry, without its layers. ref may name any registry; "debian" is
// docker.io/library/debian:latest. From an index it takes the image for the platform; ErrPlatform is in the chain if there is
// none. What was found is remembered for ref.
//
// Fails with KindPull: fs.ErrNotExist is in the chain if there is no such image, fs.ErrPermission if the registry does not show
// it with these credentials (registries say so for names that do not exist, too).
func (i *Images) Config(ctx context.Context, ref string) (Image, error) {
	return Image{}, errors.ErrUnsupported
}

// ErrPlatform is in the chain of errors about an image that is not for the platform.
var ErrPlatform = errors.New("the image is not for this platform")

// Find returns the reference of the image that Push has put under a name and key, as Push returns it, or "" if there is none.
func (i *Images) Find(ctx context.Context, name, key string) (ref string, err error) {
	return "", errors.ErrUnsupported
}

// PushOptions describe an image to push: a base, and layers on it.
type PushOptions struct {
	// Base is an image in any registry. If it is empty, the image begins without files, and has only the platform.
	Base string
	// Layers are put on the base, the bottom first.
	Layers []Layer
	// Change, if not nil, changes the settings, which are the base's.
	Change func(*Settings)
	// Name and Key name the image, REGISTRY/NAME:KEY. Name is for users; it is made safe. Key has 16 hexadecimal digits or more.
	Name, Key string
	// Progress receives lines for users; may be nil.
	Progress func(string)
}

// Layer is one layer of an image.
type Layer struct {
	// Open returns an uncompressed tar archive, as the OCI image specification has layers: with ".wh." files for what it removes.
	// It is called several times and must return the same bytes each time.
	Open func(ctx context.Context) (io.ReadCloser, error)
}

// FileLayer returns a layer with one file, which belongs to root. name is absolute; missing directories are 0755. open is called
// several times; each time the content must have the size.
func FileLayer(name string, mode fs.FileMode, size int64, open func() (io.ReadCloser, error)) Layer {
	return Layer{Open: func(context.Context) (io.ReadCloser, error) {
		return nil, fmt.Errorf("%s: %w", name, errors.ErrUnsupported)
	}}
}

// Push pushes an image and returns REGISTRY/NAME@sha256:DIGEST. It does not look whether it is there: see Find. Layers of the
// base are not downloaded if the registry can take them from another of its repositories; layers that it has are not uploaded.
func (i *Images) Push(ctx context.Context, opts PushOptions) (ref string, err error) {
	return "", errors.ErrUnsupported
}
