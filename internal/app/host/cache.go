package host

import (
	"github.com/org/rollout-action/internal/lib/cache"
	"github.com/org/rollout-action/internal/lib/quantity"
)

// cacheSizeVariable sets the size limit of the cache.
const cacheSizeVariable = "ROLLOUT_CACHE_SIZE"

// OpenCache returns Rollout's cache.
func OpenCache(vars Variables) (*cache.Cache, error) {
	root, err := cache.Root(vars.Getenv)
	if err != nil {
		return nil, err
	}
	size := int64(0)
	if text := vars.Variable(cacheSizeVariable); text != "" {
		if size, err = quantity.Bytes(text); err != nil || size <= 0 {
			return nil, Usagef("%s=%s: want an amount, as in 20G", cacheSizeVariable, text)
		}
	}
	return cache.New(root, size), nil
}

// TempDir makes a temporary directory; see cache.Temp.
func TempDir(prefix string) (dir string, remove func() error, err error) { return cache.Temp(prefix) }
