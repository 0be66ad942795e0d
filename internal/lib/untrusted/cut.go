package untrusted

import "unicode/utf8"

// ellipsis marks a cut.
const ellipsis = "…"

// Cut shortens s to at most size bytes, at the border of a character, and marks the cut with "…".
func Cut(s string, size int) string {
	if len(s) <= size {
		return s
	}
	mark := ellipsis
	if size < len(mark) {
		mark = ""
	}
	keep := max(size-len(mark), 0)
	for keep > 0 && !utf8.RuneStart(s[keep]) {
		keep--
	}
	return s[:keep] + mark
}
