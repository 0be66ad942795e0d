//go:build !linux

package sandbox

import (
	"context"
	"errors"
	"runtime"

	"github.com/org/rollout-action/internal/environment"
)

// Init does nothing on this system.
func Init() {}

// New fails: sandboxes are made of what only Linux has.
func New(context.Context, map[string]any, Options) (environment.Provider, error) {
	return nil, &environment.Error{
		Kind: environment.KindUnavailable,
		Err:  errors.New("the sandbox provider needs Linux, and this is " + runtime.GOOS),
		Hint: "use environment.type: docker (--env-type docker)",
	}
}
