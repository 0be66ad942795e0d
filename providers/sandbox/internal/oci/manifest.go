package oci

import (
	"encoding/json"
	"errors"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// manifest is a manifest, which has layers, or an index, which has manifests. Source: the OCI image
// specification, manifest.md and image-index.md; Docker's formats have the same fields.
type manifest struct {
	SchemaVersion int             `json:"schemaVersion"`
	Config        v1.Descriptor   `json:"config"`
	Layers        []v1.Descriptor `json:"layers"`
	Manifests     []v1.Descriptor `json:"manifests"`
}

// maxDepth bounds the nesting of indexes.
const maxDepth = 5

// resolveManifest returns the manifest that d describes; for an index, the one for this machine.
// fetch returns a document's JSON.
func resolveManifest(d v1.Descriptor, fetch func(v1.Descriptor) ([]byte, error)) (manifest, error) {
	for range maxDepth {
		raw, err := fetch(d)
		if err != nil {
			return manifest{}, err
		}
		var doc manifest
		if err := json.Unmarshal(raw, &doc); err != nil {
			return manifest{}, fmt.Errorf("manifest %s: %w", d.Digest, err)
		}
		switch {
		case doc.Manifests != nil:
			if d, err = selectPlatform(doc.Manifests); err != nil {
				return manifest{}, err
			}
		case doc.Config.Digest != v1.Hash{}:
			return doc, nil
		default:
			return manifest{}, fmt.Errorf("manifest %s is in a format that is not supported (version %d): push the image again with a current tool", d.Digest, doc.SchemaVersion)
		}
	}
	return manifest{}, errors.New("indexes are nested too deep")
}
