package ui

import (
	"strings"

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

// wrapped breaks text into lines of at most width cells, at spaces: a hyphen is part of its word, be it a name, a flag or a minus.
// A line that begins with what was in the middle is made safe as lineStart does.
func wrapped(text string, width int) []string {
	const hyphen = "\ue000" // of no meaning, and so no place to break at
	text = ansi.Wrap(strings.ReplaceAll(text, "-", hyphen), width, "")
	lines := strings.Split(strings.ReplaceAll(text, hyphen, "-"), "\n")
	for i := 1; i < len(lines); i++ {
		if strings.HasPrefix(ansi.Strip(lines[i]), ":") {
			lines[i] = lineStart(ansi.Strip(lines[i]))
		}
	}
	return lines
}
