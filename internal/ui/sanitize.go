package ui

import (
	"strings"
	"unicode"

	"github.com/charmbracelet/x/ansi"
)

// newlineMark stands for a line break in text that must stay on one line.
const newlineMark = "⏎"

// Sanitize makes text from outside (an environment, a dataset, a job file) safe to print: one line
// of valid UTF-8 without escape sequences, control, format (bidirectional, zero-width) and other
// invisible characters. Line breaks become "⏎", other white space a space. "##[" is broken up,
// because GitHub's runner takes it for a command anywhere in a line; a command that begins with "::"
// counts only at the start of a line, so callers never begin a line with foreign text.
// Source: actions/runner, ActionCommand.cs (its search also skips invisible characters, so those go first).
func Sanitize(s string) string {
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
		case invisible(r):
		default:
			b.WriteRune(r)
		}
	}
	return strings.ReplaceAll(strings.TrimSpace(b.String()), "##[", "## [")
}

// isPlain reports whether Sanitize has nothing to do: the usual case, without an allocation.
func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return s == strings.TrimSpace(s) && !strings.Contains(s, "##[")
}

// invisible reports characters that take no room, or that turn or hide the text around them.
func invisible(r rune) bool {
	return unicode.IsControl(r) ||
		unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// Only the beginning of a message is looked at, and a part of that shown: the whole of it is in result.json.
const (
	maxMessageBytes = 4096
	maxMessageCells = 300
)

// firstLine is the first line of a message that has anything to show, sanitized and bounded.
func firstLine(message string) string {
	if len(message) > maxMessageBytes {
		message = message[:maxMessageBytes]
	}
	for line := range strings.Lines(message) {
		if line = Sanitize(line); line != "" {
			return cutEnd(line, maxMessageCells)
		}
	}
	return ""
}

// cutEnd shortens s to width cells.
func cutEnd(s string, width int) string {
	return ansi.Truncate(s, max(width, 0), "…")
}

// cutMiddle shortens s to width cells; the end keeps more than the beginning, because names that
// share an agent and a dataset differ there.
func cutMiddle(s string, width int) string {
	all := ansi.StringWidth(s)
	if all <= width {
		return s
	}
	if width <= 2 {
		return ansi.Truncate(s, max(width, 0), "")
	}
	tail := (width - 1) * 2 / 3
	// A wide character at the cut may leave one cell more than asked for.
	end := ansi.TruncateLeft(s, all-tail, "")
	if ansi.StringWidth(end) > tail {
		end = ansi.TruncateLeft(s, all-tail+1, "")
	}
	return ansi.Truncate(s, width-1-tail, "") + "…" + end
}

// shellPath is a path that can be pasted into a shell: quoted where it has to be.
func shellPath(path string) string {
	path = Sanitize(path)
	safe := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("/._-+@%,=", r)
	}
	if path != "" && strings.TrimFunc(path, safe) == "" {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
