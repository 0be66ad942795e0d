package app

import (
	"context"

	"github.com/org/rollout-action/internal/lib/cache"
	"github.com/org/rollout-action/internal/lib/quantity"
)

// cacheSizeVariable sets the size limit of the cache.
const cacheSizeVariable = "ROLLOUT_CACHE_SIZE"

// Cached is the content of the cache.
type Cached struct {
	Dir     string
	Entries []cache.Entry // the least recently used first
}

// ListCache returns the entries of Rollout's cache.
func ListCache(h *Host) (Cached, error) {
	c, err := openCache(h.Variables)
	if err != nil {
		return Cached{}, err
	}
	entries, err := c.List()
	return Cached{c.Dir(), entries}, err
}

// PruneCache removes the entries of Rollout's cache that a policy selects. With an error, it
// returns what was removed before; nil: nothing was examined.
func PruneCache(ctx context.Context, h *Host, policy cache.Policy) (*cache.Pruned, error) {
	c, err := openCache(h.Variables)
	if err != nil {
		return nil, err
	}
	pruned, err := c.Prune(ctx, policy)
	return &pruned, err
}

// openCache returns Rollout's cache.
func openCache(vars Variables) (*cache.Cache, error) {
	root, err := cache.Root(vars.Getenv)
	if err != nil {
		return nil, err
	}
	size := int64(0)
	if text := vars.value(cacheSizeVariable); text != "" {
		if size, err = quantity.Bytes(text); err != nil || size <= 0 {
			return nil, usage("%s=%s: want an amount, as in 20G", cacheSizeVariable, text)
		}
	}
	return cache.New(root, size), nil
}

// TempDir makes a temporary directory; see cache.Temp.
func TempDir(prefix string) (dir string, remove func() error, err error) { return cache.Temp(prefix) }
