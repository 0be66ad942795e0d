// Package providers is the table of the places where trials can run. A new provider is a folder
// beside this file and a line in All.
package providers

import (
	"context"

	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/providers/docker"
	"github.com/org/rollout-action/providers/fake"
)

// Entry is one provider.
type Entry struct {
	Name    string
	Summary string // one line for people
	// Check looks at environment.provider_config without touching anything.
	Check func(cfg map[string]any) []environment.ConfigProblem
	// New connects. It fails with environment.KindUnavailable when the provider cannot be used here.
	New func(ctx context.Context, cfg map[string]any) (environment.Provider, error)
}

// All are the providers, the default one first.
var All = []Entry{
	{
		Name:    docker.Name,
		Summary: "containers of a Docker engine, images built with BuildKit",
		Check:   docker.Check,
		New: func(ctx context.Context, cfg map[string]any) (environment.Provider, error) {
			return docker.New(ctx, cfg)
		},
	},
	{
		Name:    fake.Name,
		Summary: "no isolation: scripts run in an embedded shell with files in memory, for trying out job files",
		Check:   fake.Check,
		New: func(context.Context, map[string]any) (environment.Provider, error) {
			return fake.New(fake.Options{}), nil
		},
	},
}

// Names are the providers' names, the default one's first.
func Names() []string {
	names := make([]string, len(All))
	for i, e := range All {
		names[i] = e.Name
	}
	return names
}

// Find is the provider of that name.
func Find(name string) (Entry, bool) {
	for _, e := range All {
		if e.Name == name {
			return e, true
		}
	}
	return Entry{}, false
}
