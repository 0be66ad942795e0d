package environment

import (
	"math"
	"path"
	"strings"
)

// ConfigKey describes one key of environment.provider_config for users.
type ConfigKey struct {
	Name    string
	Default string // as in a job file; empty: the key has none
	Doc     string // what it does, in sentences; text between backticks is code
}

// ConfigKeyNames returns the names of keys.
func ConfigKeyNames(keys []ConfigKey) []string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.Name
	}
	return names
}

// ConfigProblem is a problem with environment.provider_config.
type ConfigProblem struct {
	Path    string // relative to provider_config, dotted: "mounts.0.source"; "" is all of it
	Message string
	Hint    string // may be empty
	// Known are the keys that there are, if Path ends in one that is unknown: it may be a misspelling.
	Known []string
}

// UnknownKey returns the problem of a key at a path that is none of those that what has: "the docker provider knows", "a mount has".
func UnknownKey(path, what string, known ...string) ConfigProblem {
	list := strings.Join(known, ", ")
	if last := len(known) - 1; last > 0 {
		list = strings.Join(known[:last], ", ") + " and " + known[last]
	}
	return ConfigProblem{Path: path, Message: "unknown key", Hint: what + " " + list, Known: known}
}

// WholeNumber converts the types that YAML and JSON decoders use for whole numbers in provider_config.
func WholeNumber(value any) (int64, bool) {
	switch n := value.(type) {
	case int:
		return int64(n), true
	case int64:
		return n, true
	case uint64:
		return int64(n), n <= math.MaxInt64
	case float64:
		return int64(n), n == math.Trunc(n) && math.Abs(n) < 1<<53
	}
	return 0, false
}

// Within reports whether the absolute path p is dir or is inside it.
func Within(p, dir string) bool {
	p, dir = path.Clean(p), path.Clean(dir)
	return p == dir || dir == "/" || strings.HasPrefix(p, dir+"/")
}
