//go:build linux

package sandbox

import (
	"context"

	"github.com/org/rollout-action/internal/core/environment"
)

// ExecTerminal implements environment.TerminalRunner.
func (e *sandboxEnv) ExecTerminal(ctx context.Context, script string, opts environment.ExecOptions, t environment.Terminal) (int, error) {
	opts.Stderr = nil
	return e.exec(ctx, script, opts, &t)
}
