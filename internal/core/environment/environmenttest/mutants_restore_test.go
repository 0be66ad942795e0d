package environmenttest

import (
	"context"

	"github.com/org/rollout-action/internal/core/environment"
)

var restoreMutants = []broken{
	{"begins with the image instead of what was kept", []string{"a kept environment *", "only a kept environment *"},
		hooks{restore: func(m *mutant, ctx context.Context, _ string, o environment.CreateOptions) (environment.Environment, error) {
			return m.make(ctx, o)
		}}},
}
