package oci

import (
	"fmt"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/org/rollout-action/providers/internal/distribution"
)

// parse parses a reference as Docker does: "debian" is docker.io/library/debian:latest.
func parse(ref string) (name.Reference, error) {
	parsed, err := name.ParseReference(ref, name.WeakValidation)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: use NAME, NAME:TAG or NAME@sha256:DIGEST (%s)", ErrInvalidRef, distribution.OneLine(fmt.Sprintf("%q", ref)), distribution.OneLine(err.Error()))
	}
	return parsed, nil
}

// request selects an image in a file.
type request struct {
	text   string // as given; "": the only image of the file
	name   string // the full name; "": none
	digest string // "": any
	direct bool   // the reference names the file, too
}

func requestFor(ref name.Reference, text string) request {
	if d, ok := ref.(name.Digest); ok {
		return request{text: text, digest: d.DigestStr()}
	}
	return request{text: text, name: ref.Name()}
}

// directPrefixes are the prefixes of references to files, as skopeo and podman write them.
var directPrefixes = []string{"oci:", "oci-archive:", "docker-archive:"}

// direct splits a reference to a file, PREFIX:PATH or PREFIX:PATH:NAME. Paths and names may contain
// colons: the longest path that exists is used.
func direct(ref string) (file string, want request, ok bool) {
	for _, prefix := range directPrefixes {
		rest, found := strings.CutPrefix(ref, prefix)
		if !found {
			continue
		}
		for at := len(rest); at > 0; at = strings.LastIndexByte(rest[:at], ':') {
			if _, err := os.Stat(rest[:at]); err == nil {
				return rest[:at], requestByName(strings.TrimPrefix(rest[at:], ":")), true
			}
		}
		return rest, request{direct: true}, true
	}
	return "", request{}, false
}

// requestByName returns the request for an image in a file by a name or a bare tag.
func requestByName(text string) request {
	want := request{text: text, direct: true}
	if parsed, err := name.ParseReference(text, name.WeakValidation); err == nil {
		byName := requestFor(parsed, text)
		want.name, want.digest = byName.name, byName.digest
	}
	return want
}

// matches reports whether the request selects an image with these names.
func (w request) matches(names []string) bool {
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
