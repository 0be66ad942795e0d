package oci

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Annotations that name images in an OCI layout. Sources: the OCI image specification,
// annotations.md; containerd, images/annotations.go.
const (
	annotationRef  = "org.opencontainers.image.ref.name" // a tag alone, or a whole name
	annotationName = "io.containerd.image.name"          // always a whole name
)

// candidate is an image found in a file.
type candidate struct {
	names  []string
	digest string // of the manifest or index; of the configuration where there is no manifest
	load   func() (*Image, error)
	inner  func() ([]candidate, error) // the entries of an index; nil: not an index
}

// filePlace returns the place that searches an OCI layout or archive.
func filePlace(file string, want request) place {
	return place{name: file, find: func(context.Context) (*Image, error) {
		s, err := openStore(file)
		if errors.Is(err, fs.ErrNotExist) && want.direct {
			err = fmt.Errorf("%w: %w", ErrNotFound, err)
		}
		if err != nil {
			return nil, err
		}
		kind, found, err := s.candidates()
		if err != nil {
			return nil, err
		}
		source := kind + " " + file
		image, err := selectImage(found, want)
		if err != nil {
			return nil, asPlaceError(source, err)
		}
		image.Source = source
		return image, nil
	}}
}

// candidates returns the images in a store, and the name of the store's kind for messages.
func (s *store) candidates() (kind string, found []candidate, err error) {
	manifest, err := s.read("manifest.json")
	isDocker := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", nil, err
	}
	index, err := s.read("index.json")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", nil, err
	}
	isOCI := err == nil
	switch {
	case isDocker:
		found, err = s.dockerImages(manifest)
		if err == nil && isOCI { // newer engines write both; the index also has digests
			var more []candidate
			more, err = s.ociImages(index)
			found = append(more, found...)
		}
		return "docker archive", found, err
	case isOCI:
		found, err = s.ociImages(index)
		return s.ociKind(), found, err
	default:
		return "", nil, errors.New("this is neither an OCI layout, which has an index.json, nor an archive of docker save, which has a manifest.json")
	}
}

// dockerImages returns the images of an archive of docker save. Source: Docker Engine API, "Image
// tarball format".
func (s *store) dockerImages(manifest []byte) ([]candidate, error) {
	var images []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	if err := json.Unmarshal(manifest, &images); err != nil {
		return nil, fmt.Errorf("manifest.json: %w", err)
	}
	var out []candidate
	for _, i := range images {
		raw, err := s.read(i.Config)
		if errors.Is(err, fs.ErrNotExist) {
			continue // an image of another platform that the engine omitted
		}
		if err != nil {
			return nil, err
		}
		out = append(out, candidate{names: i.RepoTags, digest: digestOf(raw), load: func() (*Image, error) {
			var layers []openFunc
			for _, name := range i.Layers {
				layers = append(layers, s.stored(name))
			}
			return assemble(raw, layers)
		}})
	}
	return out, nil
}

// ociImages returns the images in the index of an OCI layout. Source: the OCI image specification,
// image-layout.md.
func (s *store) ociImages(index []byte) ([]candidate, error) {
	var top manifest
	if err := json.Unmarshal(index, &top); err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	var out []candidate
	for _, d := range top.Manifests {
		c := candidate{names: namesOf(d), digest: d.Digest.String(), load: func() (*Image, error) { return s.ociImage(d) }}
		if d.MediaType.IsIndex() {
			c.inner = func() ([]candidate, error) {
				raw, err := s.blob(d.Digest)
				if err != nil {
					return nil, err
				}
				return s.ociImages(raw)
			}
		}
		out = append(out, c)
	}
	return out, nil
}

// namesOf returns the names that annotations give an image. It leaves out a tag alone if there is a
// whole name.
func namesOf(d v1.Descriptor) []string {
	whole, ref := d.Annotations[annotationName], d.Annotations[annotationRef]
	switch {
	case whole != "" && (ref == "" || !strings.ContainsAny(ref, ":/")):
		return []string{whole}
	case whole != "":
		return []string{whole, ref}
	case ref != "":
		return []string{ref}
	}
	return nil
}

// ociImage loads the image that d describes or, if d is an index, the one for this machine.
func (s *store) ociImage(d v1.Descriptor) (*Image, error) {
	doc, err := resolveManifest(d, s.document)
	if err != nil {
		return nil, err
	}
	raw, err := s.blob(doc.Config.Digest)
	if err != nil {
		return nil, err
	}
	var layers []openFunc
	for _, l := range doc.Layers {
		layers = append(layers, s.stored(blobName(l.Digest)))
	}
	return assemble(raw, layers)
}

func (s *store) document(d v1.Descriptor) ([]byte, error) { return s.blob(d.Digest) }

// selectImage loads the wanted image.
func selectImage(found []candidate, want request) (*Image, error) {
	if want.text == "" {
		return onlyImage(found)
	}
	if want.digest != "" {
		return selectByDigest(found, want.digest, maxDepth)
	}
	for _, c := range found {
		if want.matches(c.names) {
			return c.load()
		}
	}
	return nil, fmt.Errorf("%w: %s", ErrNotFound, listNames(found))
}

// selectByDigest loads the image whose manifest or index has that digest. It searches nested
// indexes up to depth levels.
func selectByDigest(found []candidate, digest string, depth int) (*Image, error) {
	for _, c := range found {
		if c.digest == digest {
			return c.load()
		}
	}
	for _, c := range found {
		if c.inner == nil || depth == 0 {
			continue
		}
		inner, err := c.inner()
		if errors.Is(err, fs.ErrNotExist) {
			continue // a copy for one platform lacks the others
		}
		if err != nil {
			return nil, err
		}
		image, err := selectByDigest(inner, digest, depth-1)
		if !errors.Is(err, ErrNotFound) {
			return image, err
		}
	}
	return nil, fmt.Errorf("%w: nothing in it has this digest", ErrNotFound)
}

// onlyImage loads the only image of found. It returns ErrNotFound if there are several.
func onlyImage(found []candidate) (*Image, error) {
	different := map[string]bool{}
	var image *Image
	for _, c := range found {
		loaded, err := c.load()
		if err != nil {
			return nil, err
		}
		if !different[loaded.ID] {
			different[loaded.ID], image = true, loaded
		}
	}
	switch len(different) {
	case 0:
		return nil, fmt.Errorf("%w: there is none in it", ErrNotFound)
	case 1:
		return image, nil
	default:
		return nil, fmt.Errorf("%w: there are several in it, so add :NAME: %s", ErrNotFound, listNames(found))
	}
}

// listNames returns a phrase that lists the names of images.
func listNames(found []candidate) string {
	var names []string
	for _, c := range found {
		for _, n := range c.names {
			if !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
	}
	if len(names) == 0 {
		return "no image in it has a name"
	}
	return "it has " + strings.Join(names, ", ")
}

// ociKind names the kind of an OCI store.
func (s *store) ociKind() string {
	if s.isDir {
		return "OCI layout"
	}
	return "OCI archive"
}
