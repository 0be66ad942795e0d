package untrusted

import (
	"fmt"
	"strings"
	"unicode/utf16"
)

// JSON makes JSON text safe to print without changing its meaning: invisible characters, and text
// that GitHub's runner would take for a command, become \u escapes. Line breaks stay. Outside of
// strings, JSON has neither.
func JSON(text string) string {
	if plain(text) {
		return text
	}
	var b strings.Builder
	b.Grow(len(text))
	for _, r := range text {
		switch {
		case r == '\n' || !Invisible(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return strings.ReplaceAll(b.String(), "##[", `#\u0023[`)
}

// plain reports whether text needs no change, which is the usual case.
func plain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c >= 0x7f || c < ' ' && c != '\n' {
			return false
		}
	}
	return !strings.Contains(text, "##[")
}
