package dockerfile

import (
	"strings"
	"unicode/utf8"
)

// maxText bounds the shown part of an instruction.
const maxText = 160

// maxFailedText bounds the shown part of a failed instruction: its output follows, which matters
// more.
const maxFailedText = 60

func upper(name string) string { return strings.ToUpper(name) }

// oneLine returns an instruction on one line, for display.
func oneLine(code string) string {
	words := strings.Fields(code)
	if len(words) == 0 {
		return ""
	}
	words[0] = upper(words[0])
	return cut(strings.Join(words, " "), maxText)
}

// cut shortens a text to at most size bytes, at a character boundary.
func cut(text string, size int) string {
	if len(text) <= size {
		return text
	}
	const more = "…"
	size -= len(more)
	for size > 0 && !utf8.RuneStart(text[size]) {
		size--
	}
	return text[:size] + more
}

// firstTextLine returns the first line that is not empty.
func firstTextLine(text string) string {
	line, rest, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if line = strings.TrimSpace(line); rest != "" {
		line += "…"
	}
	return line
}
