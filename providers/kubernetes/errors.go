package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/org/rollout-action/internal/core/environment"
)

// API servers fail now and then: they restart, their storage elects a leader, a proxy before them
// is busy. These are the number of tries, and the first wait between them, which doubles: about
// seven seconds in all. client-go itself waits, up to ten times, as long as answers with
// Retry-After say.
const (
	apiTries = 7
	apiWait  = 100 * time.Millisecond
)

// persist calls do, which must be repeatable, until it succeeds, fails for good, or has failed too
// often.
func persist(ctx context.Context, do func() error) error {
	for try := 1; ; try++ {
		err := do()
		if err == nil || try == apiTries || !isTransient(err) || apierrors.IsUnauthorized(err) && try > 1 {
			return err
		}
		select {
		case <-time.After(apiWait << (try - 1)):
		case <-ctx.Done():
			return fmt.Errorf("%w while waiting to ask again after: %w", ctx.Err(), err)
		}
	}
}

// failed returns err as a failure to do something with kind. A server that cannot be reached, or
// does not know who asks, is KindUnavailable, whatever the operation.
func failed(kind environment.Kind, doing string, err error) error {
	var known *environment.Error
	if errors.As(err, &known) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	e := &environment.Error{Kind: kind, Transient: isTransient(err), Err: fmt.Errorf("%s: %w", doing, err)}
	switch {
	case isContext(err):
	case apierrors.IsUnauthorized(err):
		e.Kind, e.Hint = environment.KindUnavailable, "the credentials in the kubeconfig are not valid, or no more: log in to the cluster again"
	case isConnection(err):
		e.Kind = environment.KindUnavailable
	}
	return e
}

// isConnection reports whether err means that the server did not answer.
func isConnection(err error) bool {
	if err == nil || isContext(err) {
		return false
	}
	var network net.Error
	var address *url.Error
	return errors.As(err, &network) || errors.As(err, &address) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// isTransient reports whether the same request may succeed later: the server was not reached, or
// says that the fault is its own. Credentials that are not valid any more are fetched again for the
// next request.
func isTransient(err error) bool {
	if err == nil || isContext(err) {
		return false
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Code >= 500 {
		return true
	}
	return isConnection(err) || apierrors.IsTooManyRequests(err) || apierrors.IsUnauthorized(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err)
}

func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func lost(transient bool, format string, args ...any) error {
	return &environment.Error{Kind: environment.KindLost, Transient: transient, Err: fmt.Errorf(format, args...)}
}

// unusable is unavailable for refusals by the cluster or the configuration.
func unusable(hint, format string, args ...any) error {
	return &environment.Error{Kind: environment.KindUnavailable, Refused: true, Hint: hint, Err: fmt.Errorf(format, args...)}
}

func unavailable(hint, format string, args ...any) error {
	return &environment.Error{Kind: environment.KindUnavailable, Hint: hint, Err: fmt.Errorf(format, args...)}
}
