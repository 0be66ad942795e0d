package distribution

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"unicode"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// The kinds of a registry's errors.
var (
	// ErrNotFound: the registry does not have it.
	ErrNotFound = errors.New("no such image")
	// ErrDenied: the registry wants other credentials. Registries answer so for names that do not
	// exist, too.
	ErrDenied = errors.New("access to the image is denied")
	// ErrUnreachable: the registry did not answer, or not sensibly, or limits the rate; it may be
	// better later.
	ErrUnreachable = errors.New("the image cannot be reached")
)

// Error is an answer of a registry that is no success, or the lack of one.
type Error struct {
	// Kind is one of the errors above, or nil.
	Kind error
	// Limited: it is a limit of the rate.
	Limited bool
	// Registry is its name, for printing.
	Registry string
	text     string
	err      error
}

// Error returns one line of bounded length.
func (e *Error) Error() string { return "registry " + e.Registry + ": " + e.Text() }

// Text returns the message on one line.
func (e *Error) Text() string { return OneLine(e.text) }

// Unwrap returns the kind and the cause.
func (e *Error) Unwrap() []error {
	return slices.DeleteFunc([]error{e.Kind, e.err}, func(err error) bool { return err == nil })
}

// Classify returns err as an error of a registry.
func Classify(at name.Registry, err error) *Error {
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	e := &Error{Registry: Host(at), text: err.Error(), err: err}
	var response *transport.Error
	var failed *url.Error
	var broken net.Error
	var plain *plainError
	switch {
	case errors.Is(err, context.Canceled): // the caller's doing
	case errors.As(err, &response):
		e.Kind, e.Limited, e.text = kindOf(response), isLimit(response), describe(response)
	case errors.As(err, &plain):
		e.Kind, e.text = ErrUnreachable, plain.Error()
	case errors.As(err, &failed):
		e.Kind, e.text = ErrUnreachable, failed.Err.Error()
	case errors.As(err, &broken), isTransient(err):
		e.Kind = ErrUnreachable
	}
	return e
}

// NotFound returns an error of kind ErrNotFound for a registry that was not asked.
func NotFound(registry, why string) *Error {
	return &Error{Kind: ErrNotFound, Registry: registry, text: why}
}

// IsPlain reports whether err is that TLS is missing.
func IsPlain(err error) bool {
	var plain *plainError
	return errors.As(err, &plain)
}

// isTransient reports whether another attempt may succeed a second later. Failing to connect is not
// transient: without a network, attempts would only take time.
func isTransient(err error) bool {
	var response *transport.Error
	if errors.As(err, &response) {
		return isFailure(response) || isLimit(response)
	}
	var dialed *net.OpError
	if errors.As(err, &dialed) && dialed.Op == "dial" {
		return false
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// kindOf returns the kind of a registry's error. Source: the OCI distribution specification, "Error
// codes".
func kindOf(response *transport.Error) error {
	switch {
	case isFailure(response), isLimit(response), has(response, transport.UnavailableErrorCode):
		return ErrUnreachable
	case response.StatusCode == http.StatusUnauthorized, response.StatusCode == http.StatusForbidden,
		has(response, transport.UnauthorizedErrorCode, transport.DeniedErrorCode):
		return ErrDenied
	case response.StatusCode == http.StatusNotFound, has(response, transport.ManifestUnknownErrorCode, transport.NameUnknownErrorCode):
		return ErrNotFound
	}
	return nil
}

func has(response *transport.Error, codes ...transport.ErrorCode) bool {
	return slices.ContainsFunc(response.Errors, func(d transport.Diagnostic) bool { return slices.Contains(codes, d.Code) })
}

func isFailure(response *transport.Error) bool {
	return response.StatusCode >= 500 || response.StatusCode == http.StatusRequestTimeout
}

func isLimit(response *transport.Error) bool {
	return response.StatusCode == http.StatusTooManyRequests || has(response, transport.TooManyRequestsErrorCode)
}

// describe returns a registry's answer as text for messages. It leaves out bodies that are not in
// the form of the specification: they are pages for browsers.
func describe(response *transport.Error) string {
	out := fmt.Sprintf("%d %s", response.StatusCode, http.StatusText(response.StatusCode))
	for _, d := range response.Errors {
		out += ", " + strings.TrimSuffix(fmt.Sprintf("%s: %s", d.Code, d.Message), ": ")
	}
	return out
}

// MaxText bounds how much of a registry's answer a message repeats.
const MaxText = 400

// OneLine returns text on one line, printable and bounded, because it may come from untrusted
// sources.
func OneLine(text string) string {
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "?"), func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
	if len(text) > MaxText {
		text = strings.ToValidUTF8(text[:MaxText], "") + " …"
	}
	return text
}
