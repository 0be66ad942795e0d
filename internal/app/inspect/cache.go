package inspect

import (
	"context"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/lib/cache"
)

// Cached is the content of the cache.
type Cached struct {
	Dir     string
	Entries []cache.Entry // the least recently used first
}

// ListCache returns the entries of Rollout's cache.
func ListCache(h *host.Host) (Cached, error) {
	c, err := host.OpenCache(h.Variables)
	if err != nil {
		return Cached{}, err
	}
	entries, err := c.List()
	return Cached{c.Dir(), entries}, err
}

// PruneCache removes the entries of Rollout's cache that a policy selects. With an error, it
// returns what was removed before; nil: nothing was examined.
func PruneCache(ctx context.Context, h *host.Host, policy cache.Policy) (*cache.Pruned, error) {
	c, err := host.OpenCache(h.Variables)
	if err != nil {
		return nil, err
	}
	pruned, err := c.Prune(ctx, policy)
	return &pruned, err
}
