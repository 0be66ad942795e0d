package model

import (
	"regexp"
	"strings"
)

var (
	// edition matches suffixes of model names that identify an edition: dates, version numbers,
	// latest.
	edition = regexp.MustCompile(`([-@:._](\d{4}-\d{2}-\d{2}|\d{2}-\d{2,4}|\d{3,8}|v\d+(:\d+)?|latest|preview|exp|experimental|stable|free|beta))+$`)
	// platform matches prefixes of model names on platforms with models of several authors:
	// us.anthropic.
	platform = regexp.MustCompile(`^([a-z]{2,}\.)+`)
)

// SameModel reports whether the name in an answer is that of the requested model. Editions and
// platforms in the names are ignored.
func SameModel(asked, answered string) bool {
	return asked == answered || bareName(asked) == bareName(answered)
}

// bareName returns the name of a model without edition and platform.
func bareName(name string) string {
	name = strings.ToLower(strings.TrimSpace(name))
	name = name[strings.LastIndexByte(name, '/')+1:]
	name = platform.ReplaceAllString(name, "")
	name = edition.ReplaceAllString(name, "")
	return strings.NewReplacer("_", "-", ".", "-", ":", "-", "@", "-", " ", "-").Replace(name)
}

// InHeader reports whether a value is valid in an HTTP header: it has no control characters except
// tabs. Secrets that come from files often end with a line break.
func InHeader(value string) bool {
	return !strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}
