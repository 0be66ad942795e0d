package ui

import (
	"strings"
	"unicode"

	"github.com/charmbracelet/x/ansi"

	"github.com/org/rollout-action/internal/untrusted"
)

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
		if line = untrusted.Line(line); line != "" {
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
	path = untrusted.Line(path)
	safe := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("/._-+@%,=", r)
	}
	if path != "" && strings.TrimFunc(path, safe) == "" {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
