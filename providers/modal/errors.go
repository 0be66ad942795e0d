package modal

import (
	"context"
	"errors"
	"fmt"

	sdk "github.com/modal-labs/modal-client/go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/hosted"
)

// failed returns err as a failure to do something with kind. A service that cannot be reached, or
// does not know who asks, is KindUnavailable, whatever the operation.
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
	e := &environment.Error{Kind: kind, Err: fmt.Errorf("%s: %w", doing, plain(err))}
	switch code := codeOf(err); code {
	case codes.Unauthenticated:
		e.Kind, e.Refused = environment.KindUnavailable, true
		e.Hint = "the token is not valid, or no more: make another at https://modal.com/settings/tokens"
	case codes.PermissionDenied:
		e.Refused, e.Hint = true, "the token's workspace does not allow it"
	case codes.Unavailable, codes.DeadlineExceeded, codes.Internal, codes.Aborted, codes.Unknown, codes.Canceled:
		e.Transient = true
	case codes.ResourceExhausted:
		e.Transient, e.Hint = true, "the workspace has a limit of rate or of containers: lower n_concurrent_trials, or ask Modal for more"
		if kind == environment.KindStart {
			e.Kind = environment.KindResources
		}
	}
	return e
}

// codeOf returns the status of an error of the client; OK if it has none.
func codeOf(err error) codes.Code {
	var carrier interface{ GRPCStatus() *status.Status }
	switch {
	case errors.As(err, &carrier):
		return carrier.GRPCStatus().Code()
	case errors.As(err, new(sdk.NotFoundError)):
		return codes.NotFound
	case errors.As(err, new(sdk.ResourceExhaustedError)):
		return codes.ResourceExhausted
	case errors.As(err, new(sdk.ConflictError)):
		return codes.FailedPrecondition
	case errors.As(err, new(sdk.InvalidError)):
		return codes.InvalidArgument
	}
	return codes.OK
}

// plain returns an error without the words of gRPC.
func plain(err error) error {
	if s, ok := status.FromError(err); ok && s.Message() != "" {
		return fmt.Errorf("Modal: %s (%s)", hosted.OneLine(s.Message()), s.Code())
	}
	return err
}

// isGone reports whether an error says that the sandbox does not exist or has ended.
func isGone(err error) bool {
	code := codeOf(err)
	return code == codes.NotFound || code == codes.FailedPrecondition
}
