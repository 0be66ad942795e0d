package fake

import (
	"context"

	"github.com/org/rollout-action/internal/core/environment"
)

// KeepOutcome implements environment.OutcomeKeeper. All files are copied under one lock, which
// every change needs.
func (e *Environment) KeepOutcome(ctx context.Context) (environment.Outcome, error) {
	end, err := e.begin(ctx, "KeepOutcome", running)
	if err != nil {
		return environment.Outcome{}, err
	}
	defer end()
	kept := e.provider.newEnvironment(e.image)
	e.mu.Lock()
	kept.root = e.root.clone()
	e.mu.Unlock()
	kept.kept, kept.labels = max(1, kept.root.bytes()-e.image.root.bytes()), e.labels
	kept.end(stopped)
	if err := ctx.Err(); err != nil {
		return environment.Outcome{}, err
	}
	e.provider.add(kept)
	return environment.Outcome{ID: kept.id, Size: kept.kept}, nil
}
