package untrusted

import (
	"strings"
	"unicode"

	"github.com/charmbracelet/x/ansi"
)

// tab is what a tab becomes in a block of text: wide enough to keep indentation visible.
const tab = "    "

// lineBreaks are all the ways in which text from outside begins a new line. A lone carriage return is one too: a
// progress bar that overwrites itself becomes lines of which the last is the latest.
var lineBreaks = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\v", "\n", "\f", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n")

// Lines makes a block of text from outside safe to show, line by line, keeping indentation: each is valid UTF-8 without
// escape sequences, control, format and other invisible characters, and without spaces at its end. Empty lines at the
// block's ends go. A line that GitHub's runner would take for a workflow command is broken up: "::" at its start becomes
// ": :", "##[" anywhere "## [", for whatever holds the text may one day be printed in a step.
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

// blockLine is one of Lines.
func blockLine(s string) string {
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
	line := strings.TrimRight(b.String(), " ")
	if rest := strings.TrimLeft(line, " "); strings.HasPrefix(rest, "::") {
		line = line[:len(line)-len(rest)] + ": " + rest[1:]
	}
	return strings.ReplaceAll(line, "##[", "## [")
}
