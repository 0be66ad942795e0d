package registryimage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/buildcontext"
	"github.com/org/rollout-action/providers/internal/buildkit"
	"github.com/org/rollout-action/providers/internal/distribution"
)

// tagDigits is how much of a definition's digest is in its image's tag.
const tagDigits = 16

// Build implements environment.Provider's BuildImage: it returns REGISTRY/NAME@sha256:DIGEST. The
// image also has the tag REGISTRY/NAME:KEY; the key is a digest of the Dockerfile, its context, the
// arguments, the platform and the kind of builder. An image that the registry has under the key is
// not built again, unless NoCache. Callers who want the same build share it.
//
// It fails with KindBuild if the definition is wrong.
func (i *Images) Build(ctx context.Context, opts environment.BuildOptions) (ref string, err error) {
	if i.config.Registry == "" {
		return "", errNoRegistry()
	}
	definition, err := buildcontext.Read(opts.Context)
	if err != nil {
		return "", unreadable(err)
	}
	builder, _, unusable := i.pick(ctx)
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	builders := i.builders
	if unusable == nil {
		builders = []Builder{builder}
	}
	for _, b := range builders {
		req, ref, err := i.request(ctx, b, opts, definition)
		if err != nil || ref != "" {
			return ref, err
		}
		if unusable == nil {
			return i.buildOnce(ctx, b, i.repository(opts.Name), req)
		}
	}
	return "", unusable
}

// CheckBuild returns the error of Build if no builder can be used and the registry does not have
// the image either, or if a base image is not for the platform (ErrPlatform is in the chain).
// Nothing is built. What cannot be asked now is no error.
func (i *Images) CheckBuild(ctx context.Context, opts environment.BuildOptions) error {
	definition, err := buildcontext.Read(opts.Context)
	if err != nil || i.config.Registry == "" {
		return nil //nolint:nilerr // Build reports it
	}
	if _, _, unusable := i.pick(ctx); errors.Is(unusable, ErrNoBuilder) {
		for _, b := range i.builders {
			if _, ref, err := i.request(ctx, b, opts, definition); err != nil || ref != "" {
				return nil //nolint:nilerr // Build reports it
			}
		}
		return unusable
	}
	if bytes.Contains(definition.Dockerfile, []byte("--platform")) {
		return nil // stages may be for the machine that builds
	}
	for _, ref := range buildkit.BaseImages(definition.Dockerfile, opts.Args) {
		if _, err := i.Config(ctx, ref); errors.Is(err, ErrPlatform) {
			return ofBase(err)
		}
	}
	return nil
}

// request returns the request to a builder, or the image if it is in the registry.
func (i *Images) request(ctx context.Context, b Builder, opts environment.BuildOptions, definition buildcontext.Definition) (req Request, ref string, err error) {
	req = Request{BuildOptions: opts, Definition: definition, Platform: i.config.Platform}
	if req.Digest, err = i.key(ctx, b, definition, opts.Args); err != nil {
		return req, "", unreadable(err)
	}
	repository := i.repository(opts.Name)
	req.Target = repository + ":" + req.Digest[:tagDigits]
	if opts.NoCache {
		return req, "", nil
	}
	digest, err := i.present(ctx, req.Target)
	if err != nil || digest == "" {
		return req, "", err
	}
	return req, repository + "@" + digest, nil
}

// ofBase returns the error of an image on which a Dockerfile builds: the task names it.
func ofBase(err error) error {
	if known := new(environment.Error); errors.As(err, &known) {
		return &environment.Error{Kind: environment.KindBuild, Transient: known.Transient, Hint: known.Hint, Err: fmt.Errorf("base image: %w", known.Err)}
	}
	return err
}

// key returns a digest that identifies the image that a builder makes of a definition.
func (i *Images) key(ctx context.Context, b Builder, d buildcontext.Definition, args map[string]string) (string, error) {
	platform := i.config.Platform
	if kind := b.Kind(); kind != "" {
		platform += " " + kind
	}
	return d.Digest(ctx, args, platform)
}

// repository returns the repository of images with a name.
func (i *Images) repository(of string) string {
	return i.config.Registry + "/" + buildcontext.ImageName(of)
}

// buildOnce builds an image and pushes it, or waits for a build under way.
func (i *Images) buildOnce(ctx context.Context, b Builder, repository string, req Request) (string, error) {
	attempt := fmt.Sprintf("build %s %t", req.Target, req.NoCache)
	err := i.flights.Do(ctx, attempt, req.Progress, func(ctx context.Context, tell func(string)) error {
		digest, err := i.buildMissing(ctx, b, repository, req, tell)
		if err != nil {
			return err
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		delete(i.known, req.Target)
		i.built[attempt] = digest
		return nil
	})
	if err != nil {
		return "", err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return repository + "@" + i.built[attempt], nil
}

// buildMissing builds an image unless it is there meanwhile, and returns its digest.
func (i *Images) buildMissing(ctx context.Context, b Builder, repository string, req Request, tell func(string)) (string, error) {
	if !req.NoCache {
		if digest, err := i.present(ctx, req.Target); err != nil || digest != "" {
			return digest, err
		}
	}
	if err := i.checkPush(ctx, repository); err != nil { // before minutes are spent
		return "", err
	}
	i.mu.Lock()
	about := i.about
	i.mu.Unlock()
	tell(fmt.Sprintf("building %s with %s (%s)", req.Target, b.Name(), about))
	req.Progress = tell
	req.PlainHTTP = i.config.PlainHTTP && !distribution.IsLoopback(host(req.Target))
	req.Push = func(ctx context.Context, opts PushOptions) (string, error) {
		opts.Progress = tell
		return i.pushTo(ctx, req.Target, opts)
	}
	req.Explain = func(ctx context.Context, bases []string) error { return i.explain(ctx, repository, bases) }
	digest, err := b.Build(ctx, req)
	if err != nil {
		return "", err
	}
	if _, err := v1.NewHash(digest); err != nil {
		return "", &environment.Error{Kind: environment.KindBuild, Err: fmt.Errorf("build %s: the builder %s returns no digest: %w", req.Target, b.Name(), err)}
	}
	return digest, nil
}

// present returns the digest of a tag that is to be built if it is missing, or "". Some registries
// do not say of a repository that does not exist that it does not, but refuse access: whether
// images can be pushed is asked next.
func (i *Images) present(ctx context.Context, ref string) (string, error) {
	digest, err := i.head(ctx, ref)
	if errors.Is(err, fs.ErrPermission) {
		return "", nil
	}
	return digest, err
}

func host(ref string) string {
	h, _, _ := strings.Cut(ref, "/")
	return h
}

// explain implements Request.Explain for a repository.
func (i *Images) explain(ctx context.Context, repository string, bases []string) error {
	i.mu.Lock()
	delete(i.pushes, repository)
	i.mu.Unlock()
	if err := i.checkPush(ctx, repository); err != nil {
		return err
	}
	for _, ref := range bases {
		if _, err := i.Config(ctx, ref); err != nil {
			return ofBase(err)
		}
	}
	return nil
}

func errNoRegistry() error {
	return &environment.Error{
		Kind: environment.KindUnavailable, Err: errors.New("no registry is configured, and machines pull the images that are built here from one"),
		Hint: "set environment.provider_config.registry, such as ghcr.io/org/evals, or use tasks with docker_image",
	}
}

// unreadable returns the error for a definition that cannot be read.
func unreadable(err error) error {
	e := &environment.Error{Kind: environment.KindBuild, Err: fmt.Errorf("read the build context: %w", err)}
	if errors.Is(err, fs.ErrNotExist) {
		e.Hint = "the environment directory needs a Dockerfile"
	}
	return e
}

// head returns the digest of a tag, or "" if the registry does not have it.
func (i *Images) head(ctx context.Context, ref string) (string, error) {
	parsed, err := i.parse(ref)
	if err != nil {
		return "", &environment.Error{Kind: environment.KindPull, Err: fmt.Errorf("look for image %s: %w", ref, err)}
	}
	d, err := distribution.Attempt(ctx, i.client, parsed.Context().Registry, func() (*v1.Descriptor, error) {
		return remote.Head(parsed, i.client.Remote(ctx)...)
	})
	switch {
	case err == nil:
		return d.Digest.String(), nil
	case errors.Is(err, distribution.ErrNotFound):
		return "", nil
	case ctx.Err() == nil && distribution.Classify(parsed.Context().Registry, err).Kind == nil: // the answer lacks the digest, or HEAD is not allowed
		return i.get(ctx, parsed)
	}
	return "", refused(ctx, "look for image "+ref, parsed.Context(), err)
}

// get replaces head for registries that do not answer HEAD as they should.
func (i *Images) get(ctx context.Context, ref name.Reference) (string, error) {
	d, err := distribution.Attempt(ctx, i.client, ref.Context().Registry, func() (*remote.Descriptor, error) {
		return remote.Get(ref, i.client.Remote(ctx)...)
	})
	switch {
	case err == nil:
		return d.Digest.String(), nil
	case errors.Is(err, distribution.ErrNotFound):
		return "", nil
	}
	return "", refused(ctx, "look for image "+ref.String(), ref.Context(), err)
}

// CheckPush returns why images cannot be pushed to the registry with the credentials that there
// are, or nil. It begins an upload and cancels it. That it is possible is remembered.
func (i *Images) CheckPush(ctx context.Context) error {
	if i.config.Registry == "" {
		return errNoRegistry()
	}
	err := i.checkPush(ctx, i.repository("rollout-check"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the registry creates no repositories, but it has not refused the credentials
	}
	return err
}

// checkPush is CheckPush for a repository.
func (i *Images) checkPush(ctx context.Context, repository string) error {
	i.mu.Lock()
	known := i.pushes[repository]
	i.mu.Unlock()
	if known {
		return nil
	}
	parsed, err := i.parse(repository)
	if err != nil {
		return &environment.Error{Kind: environment.KindPull, Err: err}
	}
	_, err = distribution.Attempt(ctx, i.client, parsed.Context().Registry, func() (struct{}, error) {
		return struct{}{}, remote.CheckPushPermission(parsed, authn.DefaultKeychain, contextTransport{ctx, i.client.Transport()})
	})
	if err != nil {
		return refusedPush(ctx, "push images to "+i.config.Registry, parsed.Context(), err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.pushes[repository] = true
	return nil
}

// contextTransport ends requests with a context, for functions of the library that take none. What
// cancels an upload may outlive it.
type contextTransport struct {
	ctx  context.Context //nolint:containedctx // the library makes requests without one
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t contextTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := t.ctx
	if req.Method == http.MethodDelete {
		ctx = context.WithoutCancel(ctx)
	}
	return t.next.RoundTrip(req.WithContext(ctx))
}
