package model

import (
	"regexp"
	"strings"
)

var (
	// edition is what names of models end with that say which edition of the model it is: dates,
	// numbers of versions, latest.
	edition = regexp.MustCompile(`([-@:._](\d{4}-\d{2}-\d{2}|\d{2}-\d{2,4}|\d{3,8}|v\d+(:\d+)?|latest|preview|exp|experimental|stable|free|beta))+$`)
	// platform is what names of models begin with on platforms that have those of several authors:
	// us.anthropic.
	platform = regexp.MustCompile(`^([a-z]{2,}\.)+`)
)

// SameModel reports whether a provider that was asked for a model and answers with a name has
// answered with that model, as far as names tell: they differ in editions, and in the platforms
// that they are on.
func SameModel(asked, answered string) bool {
	return asked == answered || bareName(asked) == bareName(answered)
}

// bareName returns the name of a model without what may differ.
func bareName(name string) string {
	name = strings.ToLower(strings.TrimSpace(name))
	name = name[strings.LastIndexByte(name, '/')+1:]
	name = platform.ReplaceAllString(name, "")
	name = edition.ReplaceAllString(name, "")
	return strings.NewReplacer("_", "-", ".", "-", ":", "-", "@", "-", " ", "-").Replace(name)
}
