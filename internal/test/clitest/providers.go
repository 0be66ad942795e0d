// Package clitest contains helpers for tests of the command line.
package clitest

import (
	"context"
	"slices"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/test/fake"
	"github.com/org/rollout-action/providers"
)

// Providers returns the released table of providers, followed by the fake provider and more.
func Providers(more ...providers.Entry) providers.Table {
	return slices.Concat(providers.All, providers.Table{Entry(fake.Name, func(context.Context, map[string]any, providers.Host) (environment.Provider, error) {
		return fake.New(fake.Options{}), nil
	})}, more)
}

// Entry returns an entry for Providers that accepts every provider_config. connect is its New.
func Entry(name string, connect func(context.Context, map[string]any, providers.Host) (environment.Provider, error)) providers.Entry {
	return providers.Entry{
		Name: name, Summary: "a provider for tests",
		Check:       func(map[string]any) []environment.ConfigProblem { return nil },
		New:         connect,
		Unaddressed: func(map[string]any) []string { return nil },
	}
}
