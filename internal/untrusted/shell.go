package untrusted

import (
	"strings"
	"unicode"
)

// ShellPath is a path that can be pasted into a shell as an argument: quoted where it has to be, and never a flag. What
// cannot be shown in a line is replaced as by Line.
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
