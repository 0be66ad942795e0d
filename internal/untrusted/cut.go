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

// Tail returns the last lines: at most count, and at most size bytes including line breaks. It cuts lines longer than width bytes.
// It does not change lines.
func Tail(lines []string, count, size, width int) []string {
	from := len(lines)
	var kept []string
	for from > 0 && len(lines)-from < count {
		line := Cut(lines[from-1], min(width, size))
		if size -= len(line) + 1; size < 0 {
			break
		}
		kept = append(kept, line)
		from--
	}
	for i, j := 0, len(kept)-1; i < j; i, j = i+1, j-1 {
		kept[i], kept[j] = kept[j], kept[i]
	}
	return kept
}
