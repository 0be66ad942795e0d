package fly

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/org/rollout-action/internal/core/environment"
)

// permanent returns the error of a start that fails in the same way again.
func permanent(format string, args ...any) error {
	return &environment.Error{Kind: environment.KindStart, Err: fmt.Errorf(format, args...)}
}

// failed returns err as a failure to do something with kind. A service that does not know who asks
// is KindUnavailable, whatever the operation.
func failed(ctx context.Context, kind environment.Kind, doing string, err error) error {
	var known *environment.Error
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", doing, context.Cause(ctx))
	case errors.As(err, &known):
		return fmt.Errorf("%s: %w", doing, err)
	}
	e := &environment.Error{Kind: kind, Err: fmt.Errorf("%s: %w", doing, err)}
	switch status := statusOf(err); status {
	case http.StatusUnauthorized:
		e.Kind, e.Refused = environment.KindUnavailable, true
		e.Hint = "the token is not valid, or no more: make another with `fly tokens create org`"
	case http.StatusForbidden:
		e.Refused, e.Hint = true, "the token does not allow it: an app for each job takes a token of the organization (`fly tokens create org`)"
	case http.StatusConflict, http.StatusPreconditionFailed:
		if kind == environment.KindStart { // "insufficient resources available to fulfill request"
			e.Kind, e.Transient = environment.KindResources, true
			e.Hint = "the region may be full: choose another one with region"
		}
	case http.StatusTooManyRequests:
		e.Transient, e.Hint = true, "Fly limits the rate of requests: lower n_concurrent_trials"
		if kind == environment.KindStart {
			e.Kind = environment.KindResources
		}
	default:
		e.Transient = unsure(err)
	}
	return e
}
