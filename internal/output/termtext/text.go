package termtext

import (
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/org/rollout-action/internal/lib/excerpt"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// Of a message's first line, the beginning and the end are shown: the whole of it is in
// result.json.
const (
	maxMessageRead  = 4096 // bytes of it that are made safe
	maxMessageShown = 400  // bytes
)

// FirstLine returns the first non-empty line of a message, sanitized and cut.
func FirstLine(message string) string {
	for line := range strings.Lines(message) {
		if line = untrusted.Line(excerpt.Line(line, maxMessageRead)); line != "" {
			return excerpt.Line(line, maxMessageShown)
		}
	}
	return ""
}

// CutEnd cuts s to width cells.
func CutEnd(s string, width int) string {
	return ansi.Truncate(s, max(width, 0), "…")
}

// CutMiddle cuts s to width cells. It keeps more of the end, where names that share agent and
// dataset differ.
func CutMiddle(s string, width int) string {
	all := ansi.StringWidth(s)
	if all <= width {
		return s
	}
	if width <= 2 {
		return ansi.Truncate(s, max(width, 0), "")
	}
	tail := (width - 1) * 2 / 3
	// A wide character at the cut may leave one cell too many.
	end := ansi.TruncateLeft(s, all-tail, "")
	if ansi.StringWidth(end) > tail {
		end = ansi.TruncateLeft(s, all-tail+1, "")
	}
	return ansi.Truncate(s, width-1-tail, "") + "…" + end
}

// Wrapped breaks text into lines of at most width cells, at spaces, not at hyphens, which may
// belong to names, flags and numbers. It makes continuation lines safe like lineStart.
func Wrapped(text string, width int) []string {
	const hyphen = "\ue000" // private use, so no place to break
	text = ansi.Wrap(strings.ReplaceAll(text, "-", hyphen), width, "")
	lines := strings.Split(strings.ReplaceAll(text, hyphen, "-"), "\n")
	for i := 1; i < len(lines); i++ {
		if strings.HasPrefix(ansi.Strip(lines[i]), ":") {
			lines[i] = LineStart(ansi.Strip(lines[i]))
		}
	}
	return lines
}

// LineStart makes text safe at the start of a line, where GitHub's runner takes "::" for a command.
func LineStart(text string) string {
	if strings.HasPrefix(text, ":") {
		return strconv.Quote(text)
	}
	return text
}
