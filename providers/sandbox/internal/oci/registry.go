package oci

import (
	"cmp"
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
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

const (
	defaultDialTimeout = 10 * time.Second
	// responseTimeout is how long a registry that is connected may think about an answer.
	responseTimeout = time.Minute
	// attempts is how often a registry is asked that answers that something is wrong with it.
	attempts = 3
	// firstPause is how long the first pause between attempts is; the next is three times that.
	firstPause = 300 * time.Millisecond
)

// registry is the registry of one image.
type registry struct {
	repository name.Repository
	place      string
	http       http.RoundTripper
	pause      func(ctx context.Context, nth int) error
}

// registryPlace returns the place that looks in the registry that ref names.
func registryPlace(ref name.Reference, opts FindOptions) place {
	host := shownHost(ref.Context().Registry)
	r := &registry{
		repository: ref.Context(),
		place:      "registry " + host,
		http:       roundTripper(cmp.Or(opts.DialTimeout, defaultDialTimeout)),
		pause:      opts.pause,
	}
	if r.pause == nil {
		r.pause = pause
	}
	return place{name: r.place, find: func(ctx context.Context) (*Image, error) {
		if isInvalid(host) {
			return nil, &placeError{place: r.place, kind: ErrNotFound, text: "names below .invalid never exist (RFC 6761), so Rollout did not ask it"}
		}
		return r.image(ctx, ref)
	}}
}

// shownHost returns a registry's name for messages. The library has another name for Docker Hub.
func shownHost(at name.Registry) string {
	if host := at.RegistryStr(); host != name.DefaultRegistry {
		return host
	}
	return "docker.io"
}

// isInvalid reports whether a host cannot exist. Source: RFC 6761, 6.4.
func isInvalid(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "invalid" || strings.HasSuffix(host, ".invalid")
}

func roundTripper(dial time.Duration) http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone() // with the proxies of the environment
	t.DialContext = (&net.Dialer{Timeout: dial, KeepAlive: 30 * time.Second}).DialContext
	t.TLSHandshakeTimeout = dial
	t.ResponseHeaderTimeout = responseTimeout
	return t
}

func (r *registry) options(ctx context.Context) []remote.Option {
	return []remote.Option{
		remote.WithContext(ctx),
		remote.WithTransport(r.http),
		remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithUserAgent("rollout"),
		// The library sleeps between its attempts whatever becomes of ctx, so attempts are made here.
		remote.WithRetryBackoff(remote.Backoff{Steps: 1}),
	}
}

// image returns the image ref.
func (r *registry) image(ctx context.Context, ref name.Reference) (*Image, error) {
	top, err := attempt(ctx, r, func() (*remote.Descriptor, error) { return remote.Get(ref, r.options(ctx)...) })
	if err != nil {
		return nil, err
	}
	doc, err := resolveManifest(top.Descriptor, func(d v1.Descriptor) ([]byte, error) {
		if d.Digest == top.Digest {
			return top.Manifest, nil
		}
		inner, err := attempt(ctx, r, func() (*remote.Descriptor, error) {
			return remote.Get(r.repository.Digest(d.Digest.String()), r.options(ctx)...)
		})
		if err != nil {
			return nil, err
		}
		return inner.Manifest, nil
	})
	if err != nil {
		return nil, err
	}
	raw, err := attempt(ctx, r, func() ([]byte, error) { return r.blob(ctx, doc.Config.Digest) })
	if err != nil {
		return nil, err
	}
	var layers []openFunc
	for _, l := range doc.Layers {
		layers = append(layers, func(ctx context.Context) (io.ReadCloser, error) {
			return attempt(ctx, r, func() (io.ReadCloser, error) { return r.open(ctx, l.Digest) })
		})
	}
	image, err := assemble(raw, layers)
	if err != nil {
		return nil, err
	}
	image.Source = r.place
	return image, nil
}

// open opens a blob as it is stored. The last Read fails if the content does not match digest.
func (r *registry) open(ctx context.Context, digest v1.Hash) (io.ReadCloser, error) {
	layer, err := remote.Layer(r.repository.Digest(digest.String()), r.options(ctx)...)
	if err != nil {
		return nil, err
	}
	data, err := layer.Compressed()
	if err != nil {
		return nil, err
	}
	return &classifyingReader{ReadCloser: data, classify: r.classify}, nil
}

func (r *registry) blob(ctx context.Context, digest v1.Hash) ([]byte, error) {
	from, err := r.open(ctx, digest)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	data, err := io.ReadAll(io.LimitReader(from, maxDescription+1))
	if err == nil && len(data) > maxDescription {
		err = fmt.Errorf("%s is longer than %d bytes", digest, maxDescription)
	}
	return data, err
}

// classifyingReader gives errors in the middle of a transfer their kind.
type classifyingReader struct {
	io.ReadCloser
	classify func(error) error
}

func (b *classifyingReader) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.classify(err)
	}
	return n, err
}

// attempt calls ask until it succeeds, or fails with an error that is not transient.
func attempt[T any](ctx context.Context, r *registry, ask func() (T, error)) (T, error) {
	for nth := 1; ; nth++ {
		out, err := ask()
		if err == nil {
			return out, nil
		}
		if nth == attempts || !isTransient(err) || r.pause(ctx, nth) != nil {
			var none T
			return none, r.classify(err)
		}
	}
}

// pause waits before the attempt after the nth.
func pause(ctx context.Context, nth int) error {
	long := firstPause
	for range nth - 1 {
		long *= 3
	}
	timer := time.NewTimer(long)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// isTransient reports whether another attempt may succeed a second later. Failing to connect is not transient: without
// a network, attempts would only take time.
func isTransient(err error) bool {
	var response *transport.Error
	if errors.As(err, &response) {
		return response.StatusCode >= 500 || response.StatusCode == http.StatusTooManyRequests || response.StatusCode == http.StatusRequestTimeout
	}
	var dialed *net.OpError
	if errors.As(err, &dialed) && dialed.Op == "dial" {
		return false
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// classify returns err as an error of the registry, with its kind.
func (r *registry) classify(err error) error {
	var known *placeError
	if errors.As(err, &known) {
		return err
	}
	a := &placeError{place: r.place, text: err.Error(), err: err}
	var response *transport.Error
	var failed *url.Error
	var broken net.Error
	switch {
	case errors.As(err, &response):
		a.kind, a.text = errorKind(response), describeResponse(response)
		if errors.Is(a.kind, ErrDenied) {
			a.text += ": if the image exists and is private, run `docker login " + shownHost(r.repository.Registry) +
				"`; registries answer so for names that do not exist, too"
		}
	case errors.As(err, &failed):
		a.kind, a.text = ErrUnreachable, failed.Err.Error()
	case errors.As(err, &broken), isTransient(err):
		a.kind = ErrUnreachable
	}
	return a
}

// errorKind returns the kind of a registry's error. Source: the OCI distribution specification, "Error codes".
func errorKind(response *transport.Error) error {
	has := func(codes ...transport.ErrorCode) bool {
		return slices.ContainsFunc(response.Errors, func(d transport.Diagnostic) bool { return slices.Contains(codes, d.Code) })
	}
	switch {
	case response.StatusCode >= 500, response.StatusCode == http.StatusTooManyRequests, response.StatusCode == http.StatusRequestTimeout,
		has(transport.TooManyRequestsErrorCode, transport.UnavailableErrorCode):
		return ErrUnreachable
	case response.StatusCode == http.StatusUnauthorized, response.StatusCode == http.StatusForbidden,
		has(transport.UnauthorizedErrorCode, transport.DeniedErrorCode):
		return ErrDenied
	case response.StatusCode == http.StatusNotFound, has(transport.ManifestUnknownErrorCode, transport.NameUnknownErrorCode):
		return ErrNotFound
	}
	return nil
}

// describeResponse returns a registry's answer for people. It leaves out bodies that are not in the form of the
// specification: they are pages for browsers.
func describeResponse(response *transport.Error) string {
	out := fmt.Sprintf("%d %s", response.StatusCode, http.StatusText(response.StatusCode))
	for _, d := range response.Errors {
		out += ", " + strings.TrimSuffix(fmt.Sprintf("%s: %s", d.Code, d.Message), ": ")
	}
	return out
}
