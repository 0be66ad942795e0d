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

// Annotations that name images in an OCI layout. Sources: the OCI image specification, annotations.md;
// containerd, images/annotations.go.
const (
	annotationRef  = "org.opencontainers.image.ref.name" // a tag alone, or a whole name
	annotationName = "io.containerd.image.name"          // always a whole name
)

// candidate is an image in a file.
type candidate struct {
	names  []string
	digest string // of the manifest or index; of the configuration where there is no manifest
	load   func() (*Image, error)
	inner  func() ([]candidate, error) // what an index lists; nil: this is none
}

// inFile is an OCI layout or archive.
func inFile(file string, want wish) place {
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
		image, err := pick(found, want)
		if err != nil {
			return nil, answered(source, err)
		}
		image.Source = source
		return image, nil
	}}
}

// candidates are the images in a store, and what kind of store it is, for people.
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
		if err == nil && isOCI { // newer engines write both; the index has digests besides
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

// dockerImages are the images of an archive by docker save. Source: Docker Engine API, "Image tarball format".
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
			continue // of another platform, which the engine left out
		}
		if err != nil {
			return nil, err
		}
		out = append(out, candidate{names: i.RepoTags, digest: digestOf(raw), load: func() (*Image, error) {
			var layers []opener
			for _, name := range i.Layers {
				layers = append(layers, s.stored(name))
			}
			return assemble(raw, layers)
		}})
	}
	return out, nil
}

// ociImages are the images that an OCI layout's index names. Source: the OCI image specification,
// image-layout.md.
func (s *store) ociImages(index []byte) ([]candidate, error) {
	var top document
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

// namesOf are the names that annotations give an image. A tag alone is no name where there is a whole one.
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

// ociImage loads the image that d describes, or the one for this machine if d describes many.
func (s *store) ociImage(d v1.Descriptor) (*Image, error) {
	doc, err := descend(d, s.document)
	if err != nil {
		return nil, err
	}
	raw, err := s.blob(doc.Config.Digest)
	if err != nil {
		return nil, err
	}
	var layers []opener
	for _, l := range doc.Layers {
		layers = append(layers, s.stored(blobName(l.Digest)))
	}
	return assemble(raw, layers)
}

func (s *store) document(d v1.Descriptor) ([]byte, error) { return s.blob(d.Digest) }

// pick loads the image of found that is wanted.
func pick(found []candidate, want wish) (*Image, error) {
	if want.text == "" {
		return only(found)
	}
	if want.digest != "" {
		return pickDigest(found, want.digest, maxDepth)
	}
	for _, c := range found {
		if want.calledBy(c.names) {
			return c.load()
		}
	}
	return nil, fmt.Errorf("%w: %s", ErrNotFound, has(found))
}

// pickDigest loads the image whose manifest or index has that digest, in indexes up to depth deep.
func pickDigest(found []candidate, digest string, depth int) (*Image, error) {
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
			continue // copies for one platform leave the others' out
		}
		if err != nil {
			return nil, err
		}
		image, err := pickDigest(inner, digest, depth-1)
		if !errors.Is(err, ErrNotFound) {
			return image, err
		}
	}
	return nil, fmt.Errorf("%w: nothing in it has this digest", ErrNotFound)
}

// only is the image of found, if it is the only one.
func only(found []candidate) (*Image, error) {
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
		return nil, fmt.Errorf("%w: there are several in it, so add :NAME: %s", ErrNotFound, has(found))
	}
}

// has says which images there are.
func has(found []candidate) string {
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

// ociKind tells folders from archives.
func (s *store) ociKind() string {
	if s.folder {
		return "OCI layout"
	}
	return "OCI archive"
}
