package registryimage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	dockerspec "github.com/moby/docker-image-spec/specs-go/v1"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/distribution"
)

const (
	// maxDepth bounds how deep indexes may be nested.
	maxDepth = 5
	// maxConfig bounds an image's configuration, and maxLayers how many layers it may have.
	maxConfig = 8 << 20
	maxLayers = 1000
)

// Config returns the description of an image from its registry, without its layers. ref may name
// any registry; "debian" is docker.io/library/debian:latest. From an index it takes the image for
// the platform; ErrPlatform is in the chain if there is none. What was found is remembered for ref.
// Callers must not change it.
//
// Fails with KindPull: fs.ErrNotExist is in the chain if there is no such image, fs.ErrPermission
// if the registry does not show it with these credentials (registries say so for names that do not
// exist, too).
func (i *Images) Config(ctx context.Context, ref string) (Image, error) {
	i.mu.Lock()
	known, ok := i.known[ref]
	i.mu.Unlock()
	if ok {
		return known, nil
	}
	err := i.flights.Do(ctx, "config "+ref, nil, func(ctx context.Context, _ func(string)) error {
		found, err := i.find(ctx, ref)
		if err != nil {
			return err
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		i.known[ref] = found.Image
		return nil
	})
	if err != nil {
		return Image{}, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.known[ref], nil
}

// ErrPlatform is in the chain of errors about an image that is not for the platform.
var ErrPlatform = errors.New("the image is not for this platform")

// found is an image in a registry.
type found struct {
	Image
	image  v1.Image // layers are fetched with the context of find
	config []byte
}

// find returns the image for the platform that a reference names.
func (i *Images) find(ctx context.Context, ref string) (found, error) {
	doing := "look for image " + ref
	parsed, err := i.parse(ref)
	if err != nil {
		return found{}, &environment.Error{Kind: environment.KindPull, Err: fmt.Errorf("%s: %w", doing, err), Hint: "use NAME, NAME:TAG or NAME@sha256:DIGEST"}
	}
	if host := distribution.Host(parsed.Context().Registry); distribution.IsInvalid(host) {
		return found{}, refused(ctx, doing, parsed.Context(), distribution.NotFound(host, "names below .invalid never exist (RFC 6761), so Rollout did not ask it"))
	}
	out, err := i.fetch(ctx, parsed)
	if err != nil && errors.Is(err, ErrPlatform) {
		return found{}, &environment.Error{
			Kind: environment.KindPull, Err: fmt.Errorf("%s: %w", doing, err), Hint: "use an image for " + i.config.Platform + ", or machines that run this one",
		}
	}
	if err != nil {
		return found{}, refused(ctx, doing, parsed.Context(), err)
	}
	return out, nil
}

// fetch asks a registry for an image's manifest and configuration.
func (i *Images) fetch(ctx context.Context, ref name.Reference) (found, error) {
	repository := ref.Context()
	for range maxDepth {
		top, err := distribution.Attempt(ctx, i.client, repository.Registry, func() (*remote.Descriptor, error) {
			return remote.Get(ref, i.client.Remote(ctx)...)
		})
		if err != nil {
			return found{}, err
		}
		switch {
		case top.MediaType.IsIndex():
			var index v1.IndexManifest
			if err := json.Unmarshal(top.Manifest, &index); err != nil {
				return found{}, fmt.Errorf("index %s: %w", top.Digest, err)
			}
			d, err := i.choose(index.Manifests)
			if err != nil {
				return found{}, err
			}
			ref = repository.Digest(d.Digest.String())
		case top.MediaType.IsImage():
			return i.describe(ctx, repository, top)
		default:
			return found{}, fmt.Errorf("%s is not an image: its media type is %q", top.Digest, distribution.OneLine(string(top.MediaType)))
		}
	}
	return found{}, errors.New("indexes are nested too deep")
}

// choose returns the image for the platform among those of an index.
func (i *Images) choose(from []v1.Descriptor) (v1.Descriptor, error) {
	var fitting []v1.Descriptor
	var others []string
	for _, d := range from {
		switch p := d.Platform; {
		case p == nil && len(from) == 1:
			return d, nil // the configuration will tell
		case p == nil || p.OS == "unknown": // attestations and the like are no images
		case i.fits(*p):
			fitting = append(fitting, d)
		default:
			others = append(others, p.String())
		}
	}
	if len(fitting) > 0 {
		// A variant asks for a newer processor, except v8, which every arm64 is.
		plain := slices.IndexFunc(fitting, func(d v1.Descriptor) bool { return d.Platform.Variant == i.platform.Variant })
		if plain < 0 {
			plain = slices.IndexFunc(fitting, func(d v1.Descriptor) bool { return d.Platform.Variant == "" || d.Platform.Variant == "v8" })
		}
		return fitting[max(plain, 0)], nil
	}
	if len(others) == 0 {
		return v1.Descriptor{}, fmt.Errorf("%w, %s: its index names no platform", ErrPlatform, i.config.Platform)
	}
	return v1.Descriptor{}, fmt.Errorf("%w, %s: there is %s", ErrPlatform, i.config.Platform, distribution.OneLine(strings.Join(others, ", ")))
}

// fits reports whether an image for a platform runs on the one that is wanted.
func (i *Images) fits(p v1.Platform) bool {
	if p.OS != i.platform.OS || p.Architecture != i.platform.Architecture {
		return false
	}
	any := i.platform.Variant == "" || p.Variant == "" || p.Architecture == "amd64"
	return any || p.Variant == i.platform.Variant
}

// describe reads the configuration of an image.
func (i *Images) describe(ctx context.Context, repository name.Repository, top *remote.Descriptor) (found, error) {
	img, err := top.Image()
	if err != nil {
		return found{}, err
	}
	manifest, err := img.Manifest()
	if err != nil {
		return found{}, err
	}
	if manifest.Config.Size > maxConfig || len(manifest.Layers) > maxLayers {
		return found{}, fmt.Errorf("image %s has %d layers and a configuration of %d bytes: more than rollout reads", top.Digest, len(manifest.Layers), manifest.Config.Size)
	}
	raw, err := distribution.Attempt(ctx, i.client, repository.Registry, img.RawConfigFile)
	if err != nil {
		return found{}, err
	}
	settings, platform, err := readConfig(raw)
	if err != nil {
		return found{}, fmt.Errorf("the configuration of image %s: %w", top.Digest, err)
	}
	if platform.OS != "" && !i.fits(platform) {
		return found{}, fmt.Errorf("%w, %s: it is for %s", ErrPlatform, i.config.Platform, distribution.OneLine(platform.String()))
	}
	out := found{image: img, config: raw, Image: Image{
		Ref: repository.Digest(top.Digest.String()).Name(), Digest: top.Digest.String(), Platform: platform.String(), Settings: settings,
	}}
	if repository.RegistryStr() == name.DefaultRegistry {
		out.Ref = "docker.io/" + repository.RepositoryStr() + "@" + top.Digest.String()
	}
	for _, l := range manifest.Layers {
		out.Size += l.Size
	}
	return out, nil
}

// ParseSettings reads the settings of an image from its configuration.
func ParseSettings(raw []byte) (Settings, error) {
	settings, _, err := readConfig(raw)
	return settings, err
}

// readConfig reads an image's configuration.
func readConfig(raw []byte) (Settings, v1.Platform, error) {
	file, err := v1.ParseConfigFile(bytes.NewReader(raw))
	if err != nil {
		return Settings{}, v1.Platform{}, err
	}
	// What the package's own type leaves out: SHELL in some versions, and the interval of a start
	// period.
	var more struct {
		Config struct {
			Shell       []string
			Healthcheck *dockerspec.HealthcheckConfig
		} `json:"config"`
	}
	if err := json.Unmarshal(raw, &more); err != nil {
		return Settings{}, v1.Platform{}, err
	}
	c := file.Config
	return Settings{
		Entrypoint: c.Entrypoint, Cmd: c.Cmd, Env: c.Env, User: c.User, WorkingDir: c.WorkingDir,
		Shell: more.Config.Shell, Healthcheck: more.Config.Healthcheck, Labels: c.Labels, Volumes: slices.Sorted(maps.Keys(c.Volumes)),
	}, v1.Platform{OS: file.OS, Architecture: file.Architecture, Variant: file.Variant}, nil
}
