package oci

import (
	"fmt"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// parse is ref as Docker understands it: "debian" is docker.io/library/debian:latest.
func parse(ref string) (name.Reference, error) {
	parsed, err := name.ParseReference(ref, name.WeakValidation)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: use NAME, NAME:TAG or NAME@sha256:DIGEST (%s)", ErrInvalidRef, oneLine(fmt.Sprintf("%q", ref)), oneLine(err.Error()))
	}
	return parsed, nil
}

// wish is the image that a file is searched for.
type wish struct {
	text   string // as it was written; "": the only image that there is
	name   string // the whole name; "": it has none
	digest string // "": any
	direct bool   // the file was named, too
}

func wishFor(ref name.Reference, text string) wish {
	if d, ok := ref.(name.Digest); ok {
		return wish{text: text, digest: d.DigestStr()}
	}
	return wish{text: text, name: ref.Name()}
}

// directPrefixes begin references that name a file instead of an image, as skopeo and podman write them.
var directPrefixes = []string{"oci:", "oci-archive:", "docker-archive:"}

// direct splits a reference to a file, PREFIX:PATH or PREFIX:PATH:NAME. Paths and names may have colons:
// the longest path that exists is meant.
func direct(ref string) (file string, want wish, ok bool) {
	for _, prefix := range directPrefixes {
		rest, found := strings.CutPrefix(ref, prefix)
		if !found {
			continue
		}
		for at := len(rest); at > 0; at = strings.LastIndexByte(rest[:at], ':') {
			if _, err := os.Stat(rest[:at]); err == nil {
				return rest[:at], named(strings.TrimPrefix(rest[at:], ":")), true
			}
		}
		return rest, wish{direct: true}, true
	}
	return "", wish{}, false
}

// named is the wish for an image of a file by a name that may be a tag alone.
func named(text string) wish {
	want := wish{text: text, direct: true}
	if parsed, err := name.ParseReference(text, name.WeakValidation); err == nil {
		byName := wishFor(parsed, text)
		want.name, want.digest = byName.name, byName.digest
	}
	return want
}

// calledBy reports whether an image with one of names is wanted.
func (w wish) calledBy(names []string) bool {
	for _, n := range names {
		if w.direct && n == w.text {
			return true
		}
		if parsed, err := name.ParseReference(n, name.WeakValidation); err == nil && w.name != "" && parsed.Name() == w.name {
			return true
		}
	}
	return false
}
