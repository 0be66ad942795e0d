package git

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// CleanPath returns a registry's path in a repository in the form that Export takes: relative,
// without "." and ".." elements; "" is the top.
func CleanPath(p string) (string, error) {
	switch {
	case len(p) > maxPath:
		return "", fmt.Errorf("is longer than %d bytes", maxPath)
	case strings.HasPrefix(p, "/"):
		return "", errors.New("begins with a slash; paths begin at the top of the repository")
	}
	var kept []string
	for _, part := range strings.Split(p, "/") {
		if part == "" || part == "." {
			continue
		}
		if reason := badName(part); reason != "" {
			return "", errors.New(reason)
		}
		kept = append(kept, part)
	}
	return path.Join(kept...), nil
}

const (
	maxPath = 4000 // bytes; systems allow 4096
	maxName = 255
)

// badName returns the reason why a file name is not allowed, or "".
func badName(name string) string {
	switch {
	case name == "" || name == "." || name == "..":
		return fmt.Sprintf("has the name %q in it", name)
	case strings.EqualFold(name, ".git"):
		return "has the name .git in it, which git keeps for itself"
	case len(name) > maxName:
		return fmt.Sprintf("has a name in it of more than %d bytes", maxName)
	case !utf8.ValidString(name):
		return "has a name in it that is not UTF-8"
	case strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Sprintf("has a name with control characters in it: %s", safe(fmt.Sprintf("%q", name)))
	}
	return ""
}

// check finds all names and modes that cannot be written. Later steps rely on it.
func (f *directory) check(maxFiles int) {
	if f.Missing {
		return
	}
	if len(f.entries) > maxFiles {
		f.problem("holds %d files, more than the %d that are allowed", len(f.entries), maxFiles)
		return
	}
	taken := make(map[string]bool, len(f.entries)) // files, links and submodules
	for _, e := range f.entries {
		if taken[e.name] {
			f.problem("has two files called %s", safe(e.name))
		}
		taken[e.name] = true
		if len(e.name) > maxPath {
			f.problem("has a path of more than %d bytes", maxPath)
			continue
		}
		for _, part := range strings.Split(e.name, "/") {
			if reason := badName(part); reason != "" {
				f.problem("%s", reason)
			}
		}
		switch e.mode {
		case "100644", "100664", "100755", "120000":
		case "160000":
			f.Warnings = append(f.Warnings, fmt.Sprintf("the submodule %s is not fetched: its directory is empty", safe(e.name)))
		default:
			f.problem("%s has the mode %s, which git does not know", safe(e.name), safe(e.mode))
		}
	}
	for _, e := range f.entries {
		for at := strings.LastIndex(e.name, "/"); at > 0; at = strings.LastIndex(e.name[:at], "/") {
			if taken[e.name[:at]] {
				f.problem("%s is a file as well as a directory", safe(e.name[:at]))
			}
		}
	}
}
