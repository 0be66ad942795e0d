package untrusted

import (
	"strings"
	"unicode"

	"github.com/charmbracelet/x/ansi"
)

// tab replaces a tab in a block of text: wide enough to show indentation.
const tab = "    "

// lineBreaks normalizes line breaks. A lone carriage return is one, too: a progress bar that
// overwrites itself becomes several lines, of which the last is the latest.
var lineBreaks = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\v", "\n", "\f", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n")

// Lines splits a block of untrusted text into lines that are safe to show. It keeps indentation.
// Each line is valid UTF-8 without escape sequences, control, format and other invisible
// characters, and without trailing spaces. Empty lines at both ends of the block are removed.
// Workflow commands of GitHub's runner are split, because the text may be printed in a step: "::"
// at the start of a line becomes ": :", and "##[" anywhere becomes "## [".
func Lines(s string) []string {
	s = lineBreaks.Replace(strings.ToValidUTF8(ansi.Strip(s), "�"))
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = blockLine(line)
	}
	for len(lines) > 0 && lines[0] == "" {
		lines = lines[1:]
	}
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// blockLine converts one line for Lines.
func blockLine(s string) string { return strings.TrimRight(part(s), " ") }

// part converts a line, or a part of one, which may end with spaces.
func part(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for _, r := range s {
		switch {
		case r == '\t':
			b.WriteString(tab)
		case unicode.IsSpace(r):
			b.WriteByte(' ')
		case Invisible(r):
		default:
			b.WriteRune(r)
		}
	}
	line := b.String()
	if rest := strings.TrimLeft(line, " "); strings.HasPrefix(rest, "::") {
		line = line[:len(line)-len(rest)] + ": " + rest[1:]
	}
	return strings.ReplaceAll(line, "##[", "## [")
}
