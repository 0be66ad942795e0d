package cache

import (
	"errors"
	"path/filepath"
)

// ErrNoRoot means that no directory for a cache is configured.
var ErrNoRoot = errors.New("there is no directory for the cache: neither XDG_CACHE_HOME nor HOME is set to an absolute path")

// Root returns the directory of Rollout's cache, which need not exist: rollout/ in $XDG_CACHE_HOME,
// or in ~/.cache if that is not set or relative. The rule is the same on every system. Source: XDG
// Base Directory Specification.
func Root(getenv func(string) (string, bool)) (string, error) {
	if dir, _ := getenv("XDG_CACHE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "rollout"), nil
	}
	if home, _ := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".cache", "rollout"), nil
	}
	return "", ErrNoRoot
}
