package result

import (
	"regexp"
	"strings"
)

// ShardInfix stands between a job's name and its shard in the names of artifacts:
// eval-shard-1-of-4. They are found as eval-shard-*.
const ShardInfix = "-shard-"

// anyPattern matches what is a pattern anywhere in a name: a wildcard, a class, and what minimatch
// calls an extglob.
var anyPattern = regexp.MustCompile(`[?*+@!]\([^)]*\)?|\[[^\]]*\]?|[*?]`)

// PatternIn returns the part of a name that a consumer of names takes for a pattern, which then
// finds other names, too; "" if there is none. Consumers are the actions that upload and download
// artifacts, and globs of agents, datasets and tasks.
// Source: isaacs/minimatch, README; actions/download-artifact; Go, path.Match.
func PatternIn(name string) string {
	if strings.HasPrefix(name, "!") || strings.HasPrefix(name, "#") { // everything else; a comment
		return name[:1]
	}
	return anyPattern.FindString(name)
}
