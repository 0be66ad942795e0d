package excerpt

import "slices"

// Text is the beginning and the end of a text, line by line, and sometimes parts between them. If
// no bytes are left out, Head is empty and Tail is the whole text.
type Text struct {
	Head, Tail []string
	Middle     []Part // between Head and Tail (see Telling)
	Dropped    int64  // bytes that are left out before Tail
}

// Part is some lines of a text.
type Part struct {
	Dropped int64 // bytes that are left out before it
	Lines   []string
}

// Empty reports whether there is no line to show.
func (t Text) Empty() bool { return len(t.Head)+len(t.Middle)+len(t.Tail) == 0 }

// LeftOut returns the number of bytes that are left out.
func (t Text) LeftOut() int64 {
	n := t.Dropped
	for _, part := range t.Middle {
		n += part.Dropped
	}
	return n
}

// Lines returns the lines to show. Each gap is a line with its number of bytes.
func (t Text) Lines() []string {
	if t.Empty() {
		return nil
	}
	var lines []string
	for _, item := range t.items() {
		if item.gap > 0 {
			item.line = gap(item.gap)
		}
		lines = append(lines, item.line)
	}
	return lines
}

// Each returns the text with the lines of each part replaced by the result of change.
func (t Text) Each(change func([]string) []string) Text {
	t.Head, t.Tail, t.Middle = change(t.Head), change(t.Tail), slices.Clone(t.Middle)
	for i := range t.Middle {
		t.Middle[i].Lines = change(t.Middle[i].Lines)
	}
	return t
}

// gapSize is the maximum size of the line that stands for a gap, with its line break.
const gapSize = len("[9223372036854775807 bytes are left out here]\n")

// Fit shortens the text to count lines, and to size bytes together with their line breaks. A
// quarter of both is for the beginning. Lines longer than width are shortened in the middle. t does
// not change.
func (t Text) Fit(count, size, width int) Text {
	if len(t.Middle) > 0 {
		return t.choose(count, size, width)
	}
	return t.ends(count, size, width)
}

// ends is Fit for a text without parts between its beginning and its end.
func (t Text) ends(count, size, width int) Text {
	out := Text{Dropped: t.Dropped}
	if t.Dropped == 0 {
		all := slices.Concat(t.Head, t.Tail)
		if kept := fitting(all, count, size, width); len(kept) == len(all) {
			out.Tail = kept
			return out
		}
		t = Text{Head: all, Tail: all}
	}
	count, size = max(count-1, 0), max(size-gapSize, 0)
	out.Head = fitting(t.Head, count/4, size/4, width)
	count, size = count-len(out.Head), size-bytesOf(out.Head)

	reversed := slices.Clone(t.Tail)
	slices.Reverse(reversed)
	out.Tail = fitting(reversed, count, size, width)
	slices.Reverse(out.Tail)

	left := t.Tail[:len(t.Tail)-len(out.Tail)]
	if out.Dropped == 0 { // Head and Tail are the same lines
		left = left[min(len(out.Head), len(left)):]
	} else {
		out.Dropped += int64(bytesOf(t.Head[len(out.Head):]))
	}
	out.Dropped += int64(bytesOf(left))
	return out
}

// fitting returns the leading lines that fit into count lines and size bytes.
func fitting(lines []string, count, size, width int) []string {
	var kept []string
	for _, line := range lines[:min(len(lines), max(count, 0))] {
		line = Line(line, min(width, size))
		if size -= len(line) + 1; size < 0 {
			break
		}
		kept = append(kept, line)
	}
	return kept
}

func bytesOf(lines []string) int {
	n := 0
	for _, line := range lines {
		n += len(line) + 1
	}
	return n
}
