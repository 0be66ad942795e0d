package untrusted

import (
	"strings"
	"unicode"

	"github.com/charmbracelet/x/ansi"
)

// newlineMark replaces a line break in text that must stay on one line.
const newlineMark = "⏎"

// Line makes untrusted text safe to print on one line: the result is valid UTF-8 without escape
// sequences, control, format (bidirectional, zero-width) and other invisible characters. Line
// breaks become "⏎", other white space a space. It splits "##[", which GitHub's runner takes for a
// command anywhere in a line. A command that begins with "::" only counts at the start of a line,
// so callers must not begin a line with untrusted text.
// Source: actions/runner, ActionCommand.cs (its search skips invisible characters, so they are
// removed first).
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

// isPlain reports whether Line would return s unchanged: the usual case, without an allocation.
func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return s == strings.TrimSpace(s) && !strings.Contains(s, "##[")
}

// Invisible reports whether r has no width, or turns or hides the text around it.
func Invisible(r rune) bool {
	return unicode.IsControl(r) ||
		r > unicode.MaxASCII && unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// Width returns the number of terminal cells of a line: CJK and emoji take two, combining marks
// none.
func Width(line string) int { return ansi.StringWidth(line) }
