package result

import (
	"regexp"
	"strings"
)

// ShardInfix stands between a job's name and its shard in the names of artifacts:
// eval-shard-1-of-4. They are found as eval-shard-*.
const ShardInfix = "-shard-"

// anyPattern matches pattern syntax that has an effect anywhere in a name: wildcards, classes, and
// minimatch's extglobs.
var anyPattern = regexp.MustCompile(`[?*+@!]\([^)]*\)?|\[[^\]]*\]?|[*?]`)

// PatternIn returns the part of a name that consumers of names treat as a pattern, which would
// match other names, too; "" if there is none. Consumers are the actions that upload and download
// artifacts, and globs of agents, datasets and tasks.
// Source: isaacs/minimatch, README; actions/download-artifact; Go, path.Match.
func PatternIn(name string) string {
	if strings.HasPrefix(name, "!") || strings.HasPrefix(name, "#") { // everything else; a comment
		return name[:1]
	}
	return anyPattern.FindString(name)
}
