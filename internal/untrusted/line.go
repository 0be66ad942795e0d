package untrusted

import (
	"strings"
	"unicode"

	"github.com/charmbracelet/x/ansi"
)

// newlineMark stands for a line break in text that must stay on one line.
const newlineMark = "⏎"

// Line makes text from outside (an environment, a dataset, a job file) safe to print: one line
// of valid UTF-8 without escape sequences, control, format (bidirectional, zero-width) and other
// invisible characters. Line breaks become "⏎", other white space a space. "##[" is broken up,
// because GitHub's runner takes it for a command anywhere in a line; a command that begins with "::"
// counts only at the start of a line, so callers never begin a line with foreign text.
// Source: actions/runner, ActionCommand.cs (its search also skips invisible characters, so those go first).
func Line(s string) string {
	if isPlain(s) {
		return s
	}
	s = strings.ToValidUTF8(ansi.Strip(s), "�")
	s = strings.TrimSpace(strings.ReplaceAll(s, "\r\n", "\n"))
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n' || r == '\u0085' || r == '\u2028' || r == '\u2029':
			b.WriteString(newlineMark)
		case unicode.IsSpace(r):
			b.WriteByte(' ')
		case Invisible(r):
		default:
			b.WriteRune(r)
		}
	}
	return strings.ReplaceAll(strings.TrimSpace(b.String()), "##[", "## [")
}

// isPlain reports whether Line has nothing to do: the usual case, without an allocation.
func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return s == strings.TrimSpace(s) && !strings.Contains(s, "##[")
}

// Invisible reports characters that take no room, or that turn or hide the text around them.
func Invisible(r rune) bool {
	return unicode.IsControl(r) ||
		unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}
