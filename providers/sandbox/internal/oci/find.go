package oci

import (
	"context"
	"fmt"
	"time"
)

// FindOptions selects the places to search for an image. The zero value selects none.
type FindOptions struct {
	// Local lists OCI layouts (directories, or archives of them) and archives written by `docker
	// save`.
	Local []string
	// Docker is the engine whose store is searched; nil: none. It is never told to pull.
	Docker Engine
	// TempDir is the directory for an image saved from the engine, until the image is closed; "" is
	// the system's directory for temporary files.
	TempDir string
	// Registry permits the search in the registry of the image's name, with the credentials of
	// `docker login`.
	Registry bool
	// DialTimeout limits how long connecting to a registry may take, TLS included; 0 is 10 s.
	DialTimeout time.Duration

	// pause waits before the nth retry of a request to a registry; nil: increasing pauses.
	pause func(ctx context.Context, nth int) error
}

// Find searches the places of opts for the image ref: local files, the Docker engine, the registry,
// in this order. ref is a name as Docker understands it, or a file: oci:PATH[:NAME] or
// docker-archive:PATH[:NAME], which is the only place searched then, regardless of opts. Without
// NAME the file must hold a single image.
//
// Find fetches only the description of the image; layers are fetched when they are opened. The
// caller must close the image. Errors are ErrInvalidRef, ErrNotFound, ErrPlatform, ErrDenied,
// ErrUnreachable, the context's, or another if a place is broken; they contain the reason of each
// place.
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

// place is a location to search for an image. find sets the image's Source.
type place struct {
	name string
	find func(ctx context.Context) (*Image, error)
}

// placesFor returns the places to search for ref, in order.
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
