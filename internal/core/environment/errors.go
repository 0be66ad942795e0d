package environment

import (
	"context"
	"errors"
	"strings"
)

// Kind classifies a failure by the operation that failed.
type Kind string

// The kinds of failure.
const (
	KindUnavailable Kind = "unavailable" // the provider itself cannot be reached or used
	KindBuild       Kind = "build"
	KindPull        Kind = "pull"
	KindStart       Kind = "start"
	KindResources   Kind = "resources" // the requested limits cannot be granted
	KindCopy        Kind = "copy"
	KindExec        Kind = "exec" // the command could not be started
	KindLost        Kind = "lost" // the environment is gone, stopped or no longer answers
	KindTeardown    Kind = "teardown"
	KindSnapshot    Kind = "snapshot" // the environment cannot be kept as an image
)

// ErrTimeout is the error of Exec when Timeout ended the command.
var ErrTimeout = errors.New("timed out")

// ErrNotBegun is in the chain of Exec's error if the provider failed before the command began: the
// command did not run and never will, so a retry is safe.
var ErrNotBegun = errors.New("the command has not begun")

// ErrNoImage is in the chain of CreateEnvironment's error if the provider does not have the image
// (any more): building or pulling it again may help.
var ErrNoImage = errors.New("the image is not there")

// ErrOutOfMemory is in the chain of a KindLost or KindStart if the environment ended, as a whole or
// by the end of its first process, because it exceeded its memory limit.
var ErrOutOfMemory = errors.New("it needed more memory than its limit")

// ErrOutOfStorage is in the chain of a KindLost if the environment ended because its files exceeded
// their limit.
var ErrOutOfStorage = errors.New("it wrote more than its limit of storage")

// ExceededLimits reports whether an environment ended because its processes exceeded a limit, as
// opposed to external causes.
func ExceededLimits(err error) bool {
	return errors.Is(err, ErrOutOfMemory) || errors.Is(err, ErrOutOfStorage)
}

// Error is a failure of a provider.
type Error struct {
	Kind      Kind
	Transient bool // the same call may succeed later
	// Refused: a remote system or the configuration does not allow it, as opposed to a system that
	// this machine does not find or reach.
	Refused bool
	// Unconfigured: nothing on this machine names such a system, so its user probably does not use
	// it.
	Unconfigured bool

	Hint   string // how to solve it, for users; may be empty
	Output string // the last lines of the failed operation's output; may be empty
	Err    error
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Err.Error())
	if e.Hint != "" {
		b.WriteString(" (" + e.Hint + ")")
	}
	if e.Output != "" {
		b.WriteString("\n" + e.Output)
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the Kind of the first *Error in err's chain, or "".
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ""
}

// IsTransient reports whether a retry may help. The end of a context is never transient.
func IsTransient(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var e *Error
	return errors.As(err, &e) && e.Transient
}
