package oci

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	dockerspec "github.com/moby/docker-image-spec/specs-go/v1"
)

// Image is an image that was found. Its layers are fetched when they are opened.
type Image struct {
	// ID identifies the image: the digest of the configuration, "sha256:" and 64 digits, as Docker
	// shows it. An engine with containerd's image store uses another digest as the ID; ID is that
	// one then.
	ID string
	// Ref is the requested name. Source is the place it was found in, for display: "docker archive
	// PATH", "OCI layout PATH", "OCI archive PATH", "the Docker engine's store" or "registry HOST".
	Ref, Source string
	// Origin is the image's name in its registry, by digest, if it was found there. The digest may
	// be an index's.
	Origin string
	Layers []Layer // the bottom first
	Config Config

	close func() error
}

// Config is the part of an image's configuration that concerns the programs in it.
type Config struct {
	Env              []string // NAME=value
	WorkingDir, User string   // "": not set by the image
	OS, Architecture string   // in Go's names
	Entrypoint       []string
	Shell            []string // of HEALTHCHECK in shell form
	Healthcheck      *dockerspec.HealthcheckConfig
	Volumes          []string // sorted
}

// Layer is one layer of an image.
type Layer struct {
	// DiffID is the digest of the uncompressed archive: "sha256:" and 64 digits.
	DiffID string
	// Open reads the uncompressed archive until ctx ends. The last Read returns an error if the
	// archive does not match DiffID. Open may be called repeatedly and concurrently, until the
	// image is closed.
	Open func(ctx context.Context) (io.ReadCloser, error)
}

// Close removes the temporary files of the image. It may be called more than once.
func (i *Image) Close() error {
	if i.close == nil {
		return nil
	}
	return i.close()
}

// openFunc opens a layer as it is stored, compressed or not.
type openFunc func(ctx context.Context) (io.ReadCloser, error)

// assemble returns the image with the configuration raw and the stored layers, bottom first.
func assemble(raw []byte, stored []openFunc) (*Image, error) {
	file, err := v1.ParseConfigFile(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("the image's configuration: %w", err)
	}
	// Fields that the package's own type lacks: SHELL in some versions, and the interval of a start
	// period.
	var more struct {
		Config struct {
			Shell       []string
			Healthcheck *dockerspec.HealthcheckConfig
		} `json:"config"`
	}
	if err := json.Unmarshal(raw, &more); err != nil {
		return nil, fmt.Errorf("the image's configuration: %w", err)
	}
	config := Config{
		Env:          slices.Clone(file.Config.Env),
		WorkingDir:   file.Config.WorkingDir,
		User:         file.Config.User,
		OS:           file.OS,
		Architecture: file.Architecture,
		Entrypoint:   slices.Clone(file.Config.Entrypoint),
		Shell:        more.Config.Shell,
		Healthcheck:  more.Config.Healthcheck,
		Volumes:      slices.Sorted(maps.Keys(file.Config.Volumes)),
	}
	if err := config.checkPlatform(); err != nil {
		return nil, err
	}
	if len(file.RootFS.DiffIDs) != len(stored) {
		return nil, fmt.Errorf("the image has %d layers, but its configuration names %d", len(stored), len(file.RootFS.DiffIDs))
	}
	image := &Image{ID: digestOf(raw), Config: config}
	for i, id := range file.RootFS.DiffIDs {
		image.Layers = append(image.Layers, newLayer(id.String(), stored[i]))
	}
	return image, nil
}

func newLayer(diffID string, stored openFunc) Layer {
	return Layer{DiffID: diffID, Open: func(ctx context.Context) (io.ReadCloser, error) {
		from, err := stored(ctx)
		if err != nil {
			return nil, err
		}
		return verified(ctx, from, diffID)
	}}
}

// checkPlatform returns ErrPlatform for an image of another platform. It accepts an image that does
// not name one.
func (c Config) checkPlatform() error {
	if (c.OS != "" && c.OS != "linux") || (c.Architecture != "" && c.Architecture != runtime.GOARCH) {
		return fmt.Errorf("%w, linux/%s: it is for %s/%s", ErrPlatform, runtime.GOARCH, c.OS, c.Architecture)
	}
	return nil
}

// selectPlatform returns the image for this machine among those of an index.
func selectPlatform(from []v1.Descriptor) (v1.Descriptor, error) {
	var fitting []v1.Descriptor
	var others []string
	for _, d := range from {
		switch p := d.Platform; {
		case p == nil && len(from) == 1:
			return d, nil // the configuration has the platform
		case p == nil || p.OS == "unknown": // attestations and similar entries are not images
		case p.OS == "linux" && p.Architecture == runtime.GOARCH:
			fitting = append(fitting, d)
		default:
			others = append(others, p.String())
		}
	}
	if len(fitting) > 0 {
		// A variant asks for a newer processor, except v8, which every arm64 is.
		plain := slices.IndexFunc(fitting, func(d v1.Descriptor) bool {
			return d.Platform.Variant == "" || d.Platform.Variant == "v8"
		})
		return fitting[max(plain, 0)], nil
	}
	if len(others) == 0 {
		return v1.Descriptor{}, fmt.Errorf("%w, linux/%s: its index names no platform", ErrPlatform, runtime.GOARCH)
	}
	return v1.Descriptor{}, fmt.Errorf("%w, linux/%s: there is %s", ErrPlatform, runtime.GOARCH, strings.Join(others, ", "))
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}
