package cache

import (
	"errors"
	"path/filepath"
)

// ErrNoRoot means that there is no place for a cache.
var ErrNoRoot = errors.New("there is no folder for the cache: neither XDG_CACHE_HOME nor HOME is set to an absolute path")

// Root is the folder of Rollout's cache, which need not exist: rollout/ in $XDG_CACHE_HOME, or in ~/.cache when that is
// not set or relative. It is the same rule on every system. Source: XDG Base Directory Specification.
func Root(getenv func(string) (string, bool)) (string, error) {
	if dir, _ := getenv("XDG_CACHE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "rollout"), nil
	}
	if home, _ := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".cache", "rollout"), nil
	}
	return "", ErrNoRoot
}
