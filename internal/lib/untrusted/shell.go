package untrusted

import (
	"strings"
	"unicode"
)

// ShellPath returns a path that can be pasted into a shell as an argument: quoted if necessary, and
// never a flag. Characters that cannot be shown on a line are replaced as by Line.
func ShellPath(path string) string {
	path = Line(path)
	if strings.HasPrefix(path, "-") {
		path = "./" + path
	}
	safe := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("/._-+@%,=", r)
	}
	if path != "" && strings.TrimFunc(path, safe) == "" {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
