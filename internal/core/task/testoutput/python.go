package testoutput

import (
	"strings"
	"unicode"
)

// The functions in this file do with texts what Python's str does.

// spaces is the inside of a class of regular expressions: the characters of isSpace.
const spaces = `\x09-\x0d\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}`

// isSpace reports whether Python's str.isspace holds: also for four separators that Unicode does
// not call white space.
func isSpace(r rune) bool { return unicode.IsSpace(r) || 0x1c <= r && r <= 0x1f }

func strip(s string) string    { return strings.TrimFunc(s, isSpace) }
func trimLeft(s string) string { return strings.TrimLeftFunc(s, isSpace) }

// endsLine reports whether str.splitlines ends a line at r.
func endsLine(r rune) bool {
	switch r {
	case '\n', '\r', '\v', '\f', 0x1c, 0x1d, 0x1e, 0x85, 0x2028, 0x2029:
		return true
	}
	return false
}

// lines is str.splitlines, with additional empty lines between "\r" and "\n".
func lines(s string) []string { return strings.FieldsFunc(s, endsLine) }

// lower is str.lower for texts in which only ASCII is looked for: K (Kelvin) and İ have lower cases
// there that begin with ASCII letters.
func lower(s string) string {
	return strings.ReplaceAll(strings.Map(unicode.ToLower, strings.ReplaceAll(s, "İ", "i̇")), "\u212a", "k")
}
