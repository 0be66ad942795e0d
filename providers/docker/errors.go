package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/client"

	"github.com/org/rollout-action/internal/core/environment"
)

// failed returns err as a failure of the engine to do something with kind. An engine that cannot be
// reached is KindUnavailable, whatever the operation.
func failed(kind environment.Kind, doing string, err error) error {
	if isConnection(err) {
		kind = environment.KindUnavailable
	}
	return wrapped(kind, doing, err)
}

// failedInside does the same for a container: if the engine or the container cannot be reached, the
// environment is lost.
func failedInside(kind environment.Kind, doing string, err error) error {
	if isConnection(err) || cerrdefs.IsNotFound(err) || cerrdefs.IsConflict(err) {
		kind = environment.KindLost
	}
	return wrapped(kind, doing, err)
}

func wrapped(kind environment.Kind, doing string, err error) error {
	var known *environment.Error
	if errors.As(err, &known) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	var request *url.Error
	if isContext(err) && errors.As(err, &request) {
		err = request.Err // doing says more than a URL with the path of a socket
	}
	return &environment.Error{Kind: kind, Transient: isTransient(err), Err: fmt.Errorf("%s: %w", doing, err)}
}

// isConnection reports whether err means that the engine did not answer.
func isConnection(err error) bool {
	if isContext(err) {
		return false
	}
	var network net.Error
	return client.IsErrConnectionFailed(err) || errors.As(err, &network) ||
		errors.Is(err, errLost) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// errLost marks errors of BuildKit's connection as such.
var errLost = errors.New("the connection to the engine was lost")

// isTransient reports whether the same request may succeed later: the engine was not reached, or
// says that the fault is its own. Engines say so of a missing user, too, which is the image's
// fault.
func isTransient(err error) bool {
	return isConnection(err) || cerrdefs.IsInternal(err) && !isMissingUser(err) || cerrdefs.IsUnavailable(err) ||
		cerrdefs.IsDeadlineExceeded(err) && !isContext(err)
}

// isMissingUser reports whether the engine found a user or a group neither in the image's
// /etc/passwd nor in its /etc/group. Engines answer 500 and have no other way to say so. Source:
// moby/sys, user.ErrNoPasswdEntries and user.ErrNoGroupEntries.
func isMissingUser(err error) bool {
	for _, file := range []string{"passwd", "group"} {
		if strings.Contains(err.Error(), "no matching entries in "+file+" file") {
			return true
		}
	}
	return false
}

func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
