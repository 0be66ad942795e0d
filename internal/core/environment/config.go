package environment

import (
	"maps"
	"math"
	"path"
	"slices"
	"strings"
)

// ConfigKey describes one key of environment.provider_config for users.
type ConfigKey struct {
	Name    string
	Default string // as in a job file; empty: the key has none
	Doc     string // its description, in sentences; text between backticks is code
	// Files describes the files that the key's value names. A key that leaves it out is a bug,
	// which a test of package providers finds.
	Files Files
	// Keys are those of the value, if it may be a mapping with keys of the provider; otherwise nil.
	Keys []ConfigKey
}

// Files describes the files that the value of a key names, so that a stranger's files can be told
// from those of a repository.
type Files struct {
	Kind FileKind
	// Inside returns the absolute paths of the files of this machine that the file at path names in
	// turn; nil: it names none. A file that cannot be read names none.
	Inside func(path string) []string
}

// FileKind is a kind of files that values name.
type FileKind int

// The kinds. The zero value is not valid.
const (
	_ FileKind = iota
	// NoFiles: the value names no files, whatever it looks like.
	NoFiles
	// LocalFiles: the value is the path of a file or directory of this machine that is read, or a
	// list of such paths; relative ones begin at the current directory, and ~ is the home
	// directory.
	LocalFiles
	// FilesElsewhere: the value names files that Rollout cannot look at before it uses them: those
	// of another machine, or what earlier runs left in a directory.
	FilesElsewhere
)

// AdmitFiles returns a copy of a configuration in which each file of this machine that cfg names is
// replaced with the path that admit returns for it. admit gets paths as they are in cfg. refuse is
// called with the dotted path of each value that names files elsewhere. The first error ends it.
// cfg is not changed. Keys that are not in known and values of a wrong type are left as they are.
func AdmitFiles(known []ConfigKey, cfg map[string]any, admit func(path string) (string, error), refuse func(key string) error) (map[string]any, error) {
	a := admission{admit: admit, refuse: refuse}
	return a.mapping(known, cfg, "")
}

// admission is a call of AdmitFiles.
type admission struct {
	admit  func(path string) (string, error)
	refuse func(key string) error
}

func (a admission) mapping(known []ConfigKey, cfg map[string]any, at string) (map[string]any, error) {
	out := maps.Clone(cfg)
	for _, k := range known {
		value, given := cfg[k.Name]
		if !given {
			continue
		}
		admitted, err := a.value(k, value, at+k.Name)
		if err != nil {
			return nil, err
		}
		out[k.Name] = admitted
	}
	return out, nil
}

func (a admission) value(k ConfigKey, value any, at string) (any, error) {
	if below, ok := value.(map[string]any); ok && k.Keys != nil {
		return a.mapping(k.Keys, below, at+".")
	}
	if k.Files.Kind == FilesElsewhere {
		return value, a.refuse(at)
	}
	if k.Files.Kind != LocalFiles {
		return value, nil
	}
	switch value := value.(type) {
	case string:
		return a.file(k, value)
	case []any:
		out := slices.Clone(value)
		for i, item := range value {
			text, ok := item.(string)
			if !ok {
				continue
			}
			admitted, err := a.file(k, text)
			if err != nil {
				return nil, err
			}
			out[i] = admitted
		}
		return out, nil
	}
	return value, nil
}

// file admits a file, and the files that it names in turn.
func (a admission) file(k ConfigKey, name string) (string, error) {
	admitted, err := a.admit(name)
	if err != nil || k.Files.Inside == nil {
		return admitted, err
	}
	for _, other := range k.Files.Inside(admitted) {
		if _, err := a.admit(other); err != nil {
			return "", err
		}
	}
	return admitted, nil
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
	// Known are the valid keys, if Path ends in an unknown one: it may be a misspelling.
	Known []string
}

// UnknownKey returns the problem of an unknown key at a path. what introduces the known keys: "the
// docker provider knows", "a mount has".
func UnknownKey(path, what string, known ...string) ConfigProblem {
	list := strings.Join(known, ", ")
	if last := len(known) - 1; last > 0 {
		list = strings.Join(known[:last], ", ") + " and " + known[last]
	}
	return ConfigProblem{Path: path, Message: "unknown key", Hint: what + " " + list, Known: known}
}

// WholeNumber converts a whole number in provider_config from any of the types that YAML and JSON
// decoders use.
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
