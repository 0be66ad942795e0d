package environmenttest

import (
	"context"
	"errors"

	"github.com/org/rollout-action/internal/core/environment"
)

var serviceMutants = []broken{
	{"runs no services", []string{"services start in order, have names and keep logs", "main stops for good, and the services go on", "a service that fails is named, and leaves no environment"}, hooks{
		services: func(m *mutant, ctx context.Context, o environment.CreateOptions, _ environment.Services) (environment.Environment, error) {
			return m.CreateEnvironment(ctx, o)
		},
	}},
	{"does not say which service fails", []string{"a service that fails is named, and leaves no environment"}, hooks{
		services: func(_ *mutant, _ context.Context, _ environment.CreateOptions, _ environment.Services) (environment.Environment, error) {
			return nil, &environment.Error{Kind: environment.KindStart, Err: errors.New("a service has failed")}
		},
	}},
}
