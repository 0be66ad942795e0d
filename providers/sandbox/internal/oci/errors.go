package oci

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/org/rollout-action/providers/internal/distribution"
)

// Kinds of errors of Find. An error has at most one of them: if several places were searched, the
// least certain one, so ErrNotFound is certain.
var (
	// ErrInvalidRef reports a text that cannot be the name of an image.
	ErrInvalidRef = errors.New("not the name of an image")
	// ErrNotFound reports that no searched place has the image.
	ErrNotFound = distribution.ErrNotFound
	// ErrPlatform reports an image that exists, but not for linux on this machine's architecture.
	ErrPlatform = errors.New("the image is not for this machine's platform")
	// ErrDenied reports that a registry rejected the credentials or asks for some.
	ErrDenied = distribution.ErrDenied
	// ErrUnreachable reports a place without a valid answer; it may be temporary.
	ErrUnreachable = distribution.ErrUnreachable
)

// placeError is the reason why a place does not have the image.
type placeError struct {
	place string
	kind  error // one of the above; nil: none of them
	text  string
	err   error // the cause; may be nil
}

func (a *placeError) Error() string { return a.place + ": " + distribution.OneLine(a.text) }

func (a *placeError) Unwrap() []error {
	return slices.DeleteFunc([]error{a.kind, a.err}, func(err error) bool { return err == nil })
}

// asPlaceError returns err as an error of place.
func asPlaceError(place string, err error) *placeError {
	var a *placeError
	if errors.As(err, &a) {
		return a
	}
	a = &placeError{place: place, text: err.Error(), err: err}
	for _, kind := range []error{ErrNotFound, ErrPlatform, ErrDenied, ErrUnreachable} {
		if errors.Is(err, kind) {
			a.kind = kind
		}
	}
	return a
}

// findError is the error of an unsuccessful search. Its text is one line.
type findError struct {
	ref      string
	kind     error // nil: none
	failures []*placeError
}

// summarize combines the errors of all places.
func summarize(ref string, answers []*placeError) error {
	out := &findError{ref: ref, failures: answers}
	certain := []error{ErrNotFound, ErrPlatform, nil, ErrDenied, ErrUnreachable} // most certain first
	most := 0
	for _, a := range answers {
		most = max(most, slices.Index(certain, a.kind))
	}
	out.kind = certain[most]
	return out
}

func (n *findError) Error() string {
	var reasons []string
	for _, a := range n.failures {
		reasons = append(reasons, a.Error())
	}
	if len(reasons) == 0 {
		reasons = []string{"there is no place to look for it"}
	}
	what := "the image cannot be used"
	if n.kind != nil {
		what = n.kind.Error()
	}
	return fmt.Sprintf("image %s: %s (%s)", distribution.OneLine(n.ref), what, strings.Join(reasons, "; "))
}

// Unwrap returns the kind and the causes, but not the kinds of single places.
func (n *findError) Unwrap() []error {
	var out []error
	if n.kind != nil {
		out = append(out, n.kind)
	}
	for _, a := range n.failures {
		if a.err != nil && !errors.Is(a.err, ErrNotFound) && !errors.Is(a.err, ErrPlatform) &&
			!errors.Is(a.err, ErrDenied) && !errors.Is(a.err, ErrUnreachable) {
			out = append(out, a.err)
		}
	}
	return out
}
