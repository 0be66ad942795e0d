package registryimage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/distribution"
)

// refused returns the error for a registry's answer to an operation. Errors that have a kind
// already, and those of an ended context, keep it.
func refused(ctx context.Context, doing string, at name.Repository, err error) error {
	var kinded *environment.Error
	if errors.As(err, &kinded) || ctx.Err() != nil {
		if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
			err = ctx.Err()
		}
		return fmt.Errorf("%s: %w", doing, err)
	}
	known := distribution.Classify(at.Registry, err)
	e := &environment.Error{Kind: environment.KindPull, Err: fmt.Errorf("%s: %w", doing, known)}
	host := known.Registry
	switch {
	case distribution.IsPlain(err):
		e.Hint = "if " + host + " has no TLS, allow that with environment.provider_config.plain_http"
	case errors.Is(known, distribution.ErrNotFound):
		e.Err = fmt.Errorf("%s: %w (%w)", doing, known, fs.ErrNotExist)
		e.Hint = "check its name and tag"
	case errors.Is(known, distribution.ErrDenied):
		e.Err = fmt.Errorf("%s: %w (%w)", doing, known, fs.ErrPermission)
		e.Hint = loginHint(ctx, at)
	case known.Limited:
		e.Transient = true
		e.Hint = host + " limits the rate of requests: wait"
		if user(ctx, at) == "" {
			e.Hint += ", or run docker login " + host + ", because limits are higher for accounts"
		}
	case errors.Is(known, distribution.ErrUnreachable):
		e.Transient = true
		e.Hint = "see that " + host + " is the registry that is meant, and answers"
	}
	return e
}

// refusedPush returns the error for a registry's answer to a push.
func refusedPush(ctx context.Context, doing string, at name.Repository, err error) error {
	refusal := refused(ctx, doing, at, err)
	known := new(environment.Error)
	if errors.As(refusal, &known) && errors.Is(refusal, fs.ErrNotExist) {
		known.Hint = "some registries create no repositories by themselves, such as Amazon's: create " + at.RepositoryStr() + " there, or let the registry create repositories on a push"
	}
	return refusal
}

// loginHint returns a hint that names the credentials in use and the remedy.
func loginHint(ctx context.Context, at name.Repository) string {
	host := distribution.Host(at.Registry)
	if u := user(ctx, at); u != "" {
		return fmt.Sprintf("it was asked with the credentials of %s that docker login has stored: check the name, the rights of that account, or run docker login %s", u, host)
	}
	return fmt.Sprintf("it was asked without credentials: check the name, or run docker login %s", host)
}

// user returns whose credentials a registry is asked with, in words; "" if there are none.
func user(ctx context.Context, at name.Repository) string {
	found, err := authn.Resolve(ctx, authn.DefaultKeychain, at)
	if err != nil || found == authn.Anonymous {
		return ""
	}
	config, err := authn.Authorization(ctx, found)
	switch {
	case err != nil || *config == (authn.AuthConfig{}):
		return ""
	case config.Username != "":
		return fmt.Sprintf("user %q", config.Username)
	}
	return "a token"
}
