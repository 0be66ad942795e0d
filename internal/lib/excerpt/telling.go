package excerpt

import (
	"cmp"
	"regexp"
	"slices"
)

// A text within these limits is shown whole: shortening it would save little.
const (
	smallLines = 30
	smallBytes = 1 << 10
)

var (
	// failing matches lines that report a failure.
	failing = regexp.MustCompile(`(?i)\b(fail|failed|failure|failures|failing|error|errors|fatal|panic|traceback|not ok)\b|\bassert|[a-z](Error|Exception)\b|[✗✘❌]`)
	// none matches counts of zero failures.
	none = regexp.MustCompile(`(?i)\b(0|no) (failed|failures?|errors?)\b`)
	// passing matches lines that report a success, also that of a test whose name has a word of
	// failing.
	passing = regexp.MustCompile(`(?i)^\s*(ok|pass|passed|✓|✔|✅)(\W|$)`)
)

// tells reports whether a line reports a failure.
func tells(line string) bool {
	return failing.MatchString(none.ReplaceAllString(line, "")) && !passing.MatchString(line)
}

// Telling shortens a text that explains a failure, as Fit does, with two differences. A small text
// (30 lines, 1 KiB) stays whole for every count but 0. If lines that report a failure would be left
// out, they are kept before others: the first of them with the lines after it, the last ones, and
// the last line of the text. A little room stays for the beginning.
func (t Text) Telling(count, size, width int) Text {
	if all := slices.Concat(t.Head, t.Tail); count > 0 && t.LeftOut() == 0 && len(all) <= smallLines && bytesOf(all) <= smallBytes {
		count = max(count, smallLines)
	}
	if len(t.Middle) == 0 {
		plain := t.ends(count, size, width)
		if plain.LeftOut() == 0 || count < 4 || told(plain) == told(t) {
			return plain
		}
	}
	return t.choose(count, size, width)
}

// told returns the number of lines that report a failure.
func told(t Text) int {
	n := 0
	for _, item := range t.items() {
		if item.gap == 0 && tells(item.line) {
			n++
		}
	}
	return n
}

// item is a line of a text or a gap of left-out bytes.
type item struct {
	line string
	gap  int64 // 0: a line
}

// items returns the lines of a text and the gaps between them.
func (t Text) items() []item {
	var items []item
	add := func(dropped int64, lines []string) {
		if dropped > 0 {
			items = append(items, item{gap: dropped})
		}
		for _, line := range lines {
			items = append(items, item{line: line})
		}
	}
	add(0, t.Head)
	for _, part := range t.Middle {
		add(part.Dropped, part.Lines)
	}
	add(t.Dropped, t.Tail)
	return items
}

// ofItems returns a text of the items that are kept.
func ofItems(items []item, kept []bool, width int) Text {
	var parts []Part // the first has the lines before the first gap
	parts = append(parts, Part{})
	open := false // the last part ends with a gap
	dropped := int64(0)
	for i, it := range items {
		if it.gap > 0 || !kept[i] {
			dropped += cmp.Or(it.gap, int64(len(it.line)+1))
			open = true
			continue
		}
		if open {
			parts, dropped, open = append(parts, Part{Dropped: dropped}), 0, false
		}
		last := &parts[len(parts)-1]
		last.Lines = append(last.Lines, Line(it.line, width))
	}
	if open {
		parts = append(parts, Part{Dropped: dropped})
	}
	if len(parts) == 1 {
		return Text{Tail: parts[0].Lines}
	}
	end := parts[len(parts)-1]
	return Text{Head: parts[0].Lines, Middle: parts[1 : len(parts)-1 : len(parts)-1], Tail: end.Lines, Dropped: end.Dropped}
}

// choose keeps the most telling lines: at most count lines and size bytes, including the lines that
// stand for gaps.
func (t Text) choose(count, size, width int) Text {
	items := t.items()
	kept := make([]bool, len(items))
	width = min(width, max(size-2*gapSize, 0))
	keeps := func(i int) bool { return i >= 0 && i < len(items) && kept[i] }
	lines, bytes := 1, gapSize // nothing is kept yet: one gap
	keep := func(i, most int) {
		if i < 0 || i >= len(items) || kept[i] || items[i].gap > 0 {
			return
		}
		gaps := -1 // the gap that the line is in becomes none, one or two
		if i > 0 && !keeps(i-1) {
			gaps++
		}
		if i < len(items)-1 && !keeps(i+1) {
			gaps++
		}
		n, b := lines+1+gaps, bytes+len(Line(items[i].line, width))+1+gaps*gapSize
		if n <= most && b <= size {
			kept[i], lines, bytes = true, n, b
		}
	}
	var telling []int
	for i, it := range items {
		if it.gap == 0 && tells(it.line) {
			telling = append(telling, i)
		}
	}
	keep(len(items)-1, count)
	if len(telling) > 0 {
		for i := telling[0]; i < min(telling[0]+3, len(items)) && !passing.MatchString(items[i].line); i++ {
			keep(i, count)
		}
	}
	for _, i := range slices.Backward(telling) {
		keep(i, min(max(count*3/4, 4), count))
	}
	for i := range min(count/8, len(items)) {
		keep(i, count)
	}
	for _, successes := range []bool{false, true} {
		for i := range slices.Backward(items) {
			if successes || !passing.MatchString(items[i].line) {
				keep(i, count)
			}
		}
	}
	return ofItems(items, kept, width)
}
