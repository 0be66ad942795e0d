package oci

import (
	"encoding/json"
	"errors"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// document is a manifest, which has layers, or an index, which has manifests. Source: the OCI image
// specification, manifest.md and image-index.md; Docker's formats have the same fields.
type document struct {
	SchemaVersion int             `json:"schemaVersion"`
	Config        v1.Descriptor   `json:"config"`
	Layers        []v1.Descriptor `json:"layers"`
	Manifests     []v1.Descriptor `json:"manifests"`
}

// maxDepth is how deep indexes may lie in indexes.
const maxDepth = 5

// descend is the manifest that d describes; of an index, that for this machine. fetch is a document's JSON.
func descend(d v1.Descriptor, fetch func(v1.Descriptor) ([]byte, error)) (document, error) {
	for range maxDepth {
		raw, err := fetch(d)
		if err != nil {
			return document{}, err
		}
		var doc document
		if err := json.Unmarshal(raw, &doc); err != nil {
			return document{}, fmt.Errorf("manifest %s: %w", d.Digest, err)
		}
		switch {
		case doc.Manifests != nil:
			if d, err = choose(doc.Manifests); err != nil {
				return document{}, err
			}
		case doc.Config.Digest != v1.Hash{}:
			return doc, nil
		default:
			return document{}, fmt.Errorf("manifest %s is in a format that is not supported (version %d): push the image again with a current tool", d.Digest, doc.SchemaVersion)
		}
	}
	return document{}, errors.New("indexes lie too deep in each other")
}
