package oci

import (
	"context"
	"fmt"
	"time"
)

// FindOptions has the places to look for an image. The zero value has none.
type FindOptions struct {
	// Local are OCI layouts (directories, or archives of them) and archives as `docker save` writes them.
	Local []string
	// Docker is an engine whose store is looked into; nil: none. It is never made to pull.
	Docker Engine
	// TempDir is where an image of the engine's is put until it is closed; "" is the system's directory for
	// temporary files.
	TempDir string
	// Registry allows to ask the registry that the image's name names, with the credentials that
	// `docker login` left.
	Registry bool
	// DialTimeout limits how long connecting to a registry may take, TLS included; 0 is 10 s.
	DialTimeout time.Duration

	// pause waits before a registry is asked again, for the nth time; nil: longer and longer.
	pause func(ctx context.Context, nth int) error
}

// Find looks for the image ref in the places that opts allow: local files, the Docker engine, the registry,
// in this order. ref is a name as Docker understands it, or a file: oci:PATH[:NAME] or
// docker-archive:PATH[:NAME], which is looked for there alone, whatever opts say. Without NAME the file must
// hold one image only.
//
// Nothing but the description of the image is fetched; its layers are when they are opened. Close the
// image in the end. Errors are ErrInvalidRef, ErrNotFound, ErrPlatform, ErrDenied, ErrUnreachable, the
// context's, or another if a place is broken; they have the reason of each place.
func Find(ctx context.Context, ref string, opts FindOptions) (*Image, error) {
	places, err := placesFor(ref, opts)
	if err != nil {
		return nil, err
	}
	var answers []*placeError
	for _, p := range places {
		image, err := p.find(ctx)
		if ctx.Err() != nil {
			if image != nil {
				_ = image.Close()
			}
			return nil, fmt.Errorf("look for image %s in %s: %w", ref, p.name, ctx.Err())
		}
		if err == nil {
			image.Ref = ref
			return image, nil
		}
		answers = append(answers, asPlaceError(p.name, err))
	}
	return nil, summarize(ref, answers)
}

// place is somewhere an image may be. find sets the image's Source.
type place struct {
	name string
	find func(ctx context.Context) (*Image, error)
}

// placesFor returns the places to look for ref, in order.
func placesFor(ref string, opts FindOptions) ([]place, error) {
	if file, want, ok := direct(ref); ok {
		return []place{filePlace(file, want)}, nil
	}
	parsed, err := parse(ref)
	if err != nil {
		return nil, err
	}
	var places []place
	for _, file := range opts.Local {
		places = append(places, filePlace(file, requestFor(parsed, ref)))
	}
	if opts.Docker != nil {
		places = append(places, enginePlace(opts.Docker, ref, opts.TempDir))
	}
	if opts.Registry {
		places = append(places, registryPlace(parsed, opts))
	}
	return places, nil
}
