package dockerfile

import (
	"slices"
	"strings"
)

// environ is a list of KEY=value, each key once, in the order of first use. Methods do not modify
// it in place.
type environ []string

// Get implements shell.EnvGetter.
func (e environ) Get(key string) (string, bool) {
	for _, pair := range e {
		if k, v, ok := strings.Cut(pair, "="); ok && k == key {
			return v, true
		}
	}
	return "", false
}

// Keys implements shell.EnvGetter.
func (e environ) Keys() []string {
	keys := make([]string, 0, len(e))
	for _, pair := range e {
		key, _, _ := strings.Cut(pair, "=")
		keys = append(keys, key)
	}
	return keys
}

// with returns the environment with one variable set.
func (e environ) with(key, value string) environ {
	e = slices.Clone(e)
	for i, pair := range e {
		if k, _, _ := strings.Cut(pair, "="); k == key {
			e[i] = key + "=" + value
			return e
		}
	}
	return append(e, key+"="+value)
}

// sorted returns the environment sorted by key.
func (e environ) sorted() []string {
	pairs := slices.Clone(e)
	slices.SortFunc(pairs, func(a, b string) int {
		k, _, _ := strings.Cut(a, "=")
		l, _, _ := strings.Cut(b, "=")
		return strings.Compare(k, l)
	})
	return pairs
}

// normalize returns an image's environment without invalid pairs, each key once with its last
// value.
func normalize(pairs []string) environ {
	var e environ
	for _, pair := range pairs {
		if key, value, ok := strings.Cut(pair, "="); ok && key != "" {
			e = e.with(key, value)
		}
	}
	return e
}
