package oci

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/org/rollout-action/providers/internal/distribution"
)

// registry reads one image from its registry.
type registry struct {
	repository name.Repository
	client     *distribution.Client
}

// registryPlace returns the place that searches the registry of ref.
func registryPlace(ref name.Reference, opts FindOptions) place {
	host := distribution.Host(ref.Context().Registry)
	r := &registry{repository: ref.Context()}
	asking := distribution.Options{DialTimeout: opts.DialTimeout}
	if opts.pause != nil {
		asking.Pause = func(ctx context.Context, nth int, _ time.Duration) error { return opts.pause(ctx, nth) }
	}
	r.client = distribution.NewClient(asking)
	at := "registry " + host
	return place{name: at, find: func(ctx context.Context) (*Image, error) {
		if distribution.IsInvalid(host) {
			return nil, &placeError{place: at, kind: ErrNotFound, text: "names below .invalid never exist (RFC 6761), so Rollout did not ask it"}
		}
		image, err := r.image(ctx, ref)
		if err != nil {
			return nil, registryError(err)
		}
		image.Source = at
		return image, nil
	}}
}

// registryError returns an error of a registry with its kind.
func registryError(err error) error {
	var known *distribution.Error
	if !errors.As(err, &known) {
		return err
	}
	a := &placeError{place: "registry " + known.Registry, kind: known.Kind, text: known.Text(), err: err}
	if errors.Is(known.Kind, ErrDenied) {
		a.text += ": if the image exists and is private, run `docker login " + known.Registry +
			"`; registries answer so for names that do not exist, too"
	}
	if known.Limited {
		a.text += ": it limits the rate of requests; wait, or run `docker login " + known.Registry + "`, because limits are higher for accounts"
	}
	return a
}

// image loads the image ref.
func (r *registry) image(ctx context.Context, ref name.Reference) (*Image, error) {
	top, err := distribution.Attempt(ctx, r.client, r.repository.Registry, func() (*remote.Descriptor, error) { return remote.Get(ref, r.client.Remote(ctx)...) })
	if err != nil {
		return nil, err
	}
	doc, err := resolveManifest(top.Descriptor, func(d v1.Descriptor) ([]byte, error) {
		if d.Digest == top.Digest {
			return top.Manifest, nil
		}
		inner, err := distribution.Attempt(ctx, r.client, r.repository.Registry, func() (*remote.Descriptor, error) {
			return remote.Get(r.repository.Digest(d.Digest.String()), r.client.Remote(ctx)...)
		})
		if err != nil {
			return nil, err
		}
		return inner.Manifest, nil
	})
	if err != nil {
		return nil, err
	}
	raw, err := distribution.Attempt(ctx, r.client, r.repository.Registry, func() ([]byte, error) { return r.blob(ctx, doc.Config.Digest) })
	if err != nil {
		return nil, err
	}
	var layers []openFunc
	for _, l := range doc.Layers {
		layers = append(layers, func(ctx context.Context) (io.ReadCloser, error) {
			from, err := distribution.Attempt(ctx, r.client, r.repository.Registry, func() (io.ReadCloser, error) { return r.open(ctx, l.Digest) })
			if err != nil {
				return nil, registryError(err)
			}
			return from, nil
		})
	}
	image, err := assemble(raw, layers)
	if err != nil {
		return nil, err
	}
	image.Origin = r.repository.Digest(top.Digest.String()).Name()
	return image, nil
}

// open opens a blob in its stored form. The last Read fails if the content does not match digest.
func (r *registry) open(ctx context.Context, digest v1.Hash) (io.ReadCloser, error) {
	layer, err := remote.Layer(r.repository.Digest(digest.String()), r.client.Remote(ctx)...)
	if err != nil {
		return nil, err
	}
	data, err := layer.Compressed()
	if err != nil {
		return nil, err
	}
	return &classifyingReader{ReadCloser: data, at: r.repository.Registry}, nil
}

func (r *registry) blob(ctx context.Context, digest v1.Hash) ([]byte, error) {
	from, err := r.open(ctx, digest)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	data, err := io.ReadAll(io.LimitReader(from, maxDescription+1))
	if err == nil && len(data) > maxDescription {
		err = fmt.Errorf("%s is longer than %d bytes", digest, maxDescription)
	}
	return data, err
}

// classifyingReader adds the kind to errors in the middle of a transfer.
type classifyingReader struct {
	io.ReadCloser
	at name.Registry
}

func (b *classifyingReader) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = registryError(distribution.Classify(b.at, err))
	}
	return n, err
}
