package app

import (
	"context"

	"github.com/org/rollout-action/internal/cache"
)

// Cached is what the cache holds.
type Cached struct {
	Dir     string
	Entries []cache.Entry // the least recently used first
}

// ListCache returns the entries of Rollout's cache.
func ListCache(h *Host) (Cached, error) {
	c, err := h.Cache()
	if err != nil {
		return Cached{}, err
	}
	entries, err := c.List()
	return Cached{c.Dir(), entries}, err
}

// PruneCache removes the entries of Rollout's cache that a policy selects. With an error, the value is what was removed before; nil:
// nothing was looked at.
func PruneCache(ctx context.Context, h *Host, policy cache.Policy) (*cache.Pruned, error) {
	c, err := h.Cache()
	if err != nil {
		return nil, err
	}
	pruned, err := c.Prune(ctx, policy)
	return &pruned, err
}
