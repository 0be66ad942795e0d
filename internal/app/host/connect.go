package host

import (
	"context"
	"fmt"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers"
)

// Connect connects to a provider, unless ctx ends meanwhile. When hard ends, it stops waiting for
// the provider.
func Connect(ctx, hard context.Context, entry providers.Entry, cfg map[string]any, host providers.Host) (environment.Provider, error) {
	type connection struct {
		provider environment.Provider
		err      error
	}
	made := make(chan connection, 1)
	go func() {
		provider, err := entry.New(ctx, cfg, host)
		made <- connection{provider, err}
	}()
	select {
	case c := <-made:
		if ctx.Err() == nil {
			return c.provider, c.err
		}
		if c.err == nil {
			_ = c.provider.Close()
		}
	case <-hard.Done():
	}
	return nil, fmt.Errorf("connect to %s: %w", entry.Name, context.Canceled)
}

// ProviderFacts describe a provider that works here.
type ProviderFacts struct {
	About string // as in environment.Describe
	Disk  string // as in environment.Disk
}

// FactsOf returns the facts of a provider.
func FactsOf(p environment.Provider) ProviderFacts {
	return ProviderFacts{environment.Describe(p), environment.Disk(p)}
}

// tryTime bounds how long Try waits for a provider.
const tryTime = 30 * time.Second

// Try connects to a provider without the settings of a job, and closes the connection. The error is
// that of the provider, or of its slow answer.
func Try(ctx context.Context, h *Host, entry providers.Entry) (ProviderFacts, error) {
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	provider, err := Connect(ctx, h.Hard, entry, nil, providers.Host{Version: h.Version})
	if err != nil {
		return ProviderFacts{}, err
	}
	return FactsOf(provider), provider.Close()
}
