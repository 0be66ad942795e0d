package environment

import (
	"context"
	"errors"
	"strings"
)

// Kind says which part of the contract failed.
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

// ErrTimeout is what Exec returns when Timeout ended the command.
var ErrTimeout = errors.New("timed out")

// ErrNotBegun is in the chain of what Exec returns when the provider failed before the command began: it did not
// run, and never will, so that running it again may help.
var ErrNotBegun = errors.New("the command has not begun")

// ErrNoImage is in the chain of what CreateEnvironment returns when the provider does not have the image
// (any more): making it again may help.
var ErrNoImage = errors.New("the image is not there")

// ErrOutOfMemory is in the chain of a KindLost or KindStart whose environment was ended, as a whole or by the end of its first
// process, because it needed more memory than its limit.
var ErrOutOfMemory = errors.New("it needed more memory than its limit")

// Error is a failure of a provider.
type Error struct {
	Kind      Kind
	Transient bool   // trying the same call again may succeed
	Hint      string // the way out, for people; may be empty
	Output    string // the last lines of what the failed operation printed; may be empty
	Err       error
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

// KindOf is the Kind of the first *Error in err's chain, or "".
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ""
}

// IsTransient reports whether trying again may help. The end of a context never is transient.
func IsTransient(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var e *Error
	return errors.As(err, &e) && e.Transient
}
