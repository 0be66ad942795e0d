package untrusted

import (
	"html"
	"strings"
)

// gap is a character without width, written as a reference so that it can be seen in the source. GitHub looks for
// mentions, issues, commits, emoji and addresses in the text as rendered, where a backslash is gone already; a gap is not.
const gap = "&#8203;"

// commitDigits is how many hexadecimal digits in a row GitHub never takes for a commit: it wants seven.
const commitDigits = 6

// Markdown is text from outside as one line of Markdown that renders as nothing but that text, in paragraphs, lists and
// table cells alike: no emphasis, link, image, HTML, math or reference comes out of it, and nobody is mentioned. What looks
// like a commit is code, for GitHub would link it.
// Unlike Code it can hold the words of a sentence. Sources: CommonMark 0.31, GFM 0.29 (tables, autolinks), and what
// GitHub's pipeline links in rendered text.
func Markdown(s string) string {
	s = Line(s)
	var b strings.Builder
	b.Grow(len(s) + len(s)/4)
	for i := 0; i < len(s); {
		if n := word(s[i:]); n > 0 {
			writeWord(&b, s[i:i+n], s[i+n:])
			i += n
			continue
		}
		writeMark(&b, s, i)
		i++
	}
	return b.String()
}

// word is the length of the word at the start of s: ASCII letters, digits and underscores, as commits are delimited.
func word(s string) int {
	n := 0
	for n < len(s) && (alphanumeric(s[n]) || s[n] == '_') {
		n++
	}
	return n
}

func alphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func writeWord(b *strings.Builder, w, rest string) {
	switch {
	case len(w) > commitDigits && strings.Trim(w, "0123456789abcdefABCDEF") == "":
		b.WriteString("`" + w + "`") // a gap would be copied with it
	case strings.EqualFold(w, "www") && strings.HasPrefix(rest, "."):
		b.WriteString(w + gap)
	default:
		b.WriteString(strings.ReplaceAll(w, "_", `\_`))
	}
}

// writeMark writes the byte at i, which is of no word.
func writeMark(b *strings.Builder, s string, i int) {
	c, next := s[i], byte(0)
	if i+1 < len(s) {
		next = s[i+1]
	}
	switch c {
	case '<', '>', '&', '|', '$': // a reference holds also where a backslash does not: in tables, and against math
		b.WriteString(reference[c])
		b.WriteString(gapIf(c == '$' && next == '`'))
	case '\\', '`', '*', '[', ']', '~':
		b.WriteByte('\\')
		b.WriteByte(c)
	case '#':
		b.WriteString(`\#`)
		b.WriteString(gapIf(alphanumeric(next)))
	case '@':
		b.WriteByte('@')
		b.WriteString(gapIf(alphanumeric(next)))
	case ':': // :emoji:, scheme://, mailto:somebody
		if i == 0 {
			b.WriteByte('\\') // the second line of a table
		}
		b.WriteByte(':')
		b.WriteString(gapIf(alphanumeric(next) || next != 0 && strings.IndexByte("/_+-", next) >= 0))
	case '-':
		if i == 0 {
			b.WriteByte('\\')
		}
		b.WriteByte('-')
		b.WriteString(gapIf(i >= 2 && strings.EqualFold(s[i-2:i], "gh") && alphanumeric(next))) // GH-12 is an issue
	case '+', '=':
		if i == 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	case '.', ')': // 1. and 1) begin lists
		if i > 0 && strings.Trim(s[:i], "0123456789") == "" {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	default:
		b.WriteByte(c)
	}
}

var reference = map[byte]string{'<': "&lt;", '>': "&gt;", '&': "&amp;", '|': "&#124;", '$': "&#36;"}

func gapIf(yes bool) string {
	if yes {
		return gap
	}
	return ""
}

// Code is text from outside as a Markdown code span, in paragraphs and table cells alike. GitHub links and mentions
// nothing in code. Text with a pipe comes out as Markdown: in a table no form of code can hold one, whoever renders it.
func Code(s string) string {
	s = Line(s)
	switch {
	case s == "":
		return "` `"
	case strings.Contains(s, "|"):
		return Markdown(s)
	}
	fence := strings.Repeat("`", longestRun(s, '`')+1)
	if s[0] == '`' || s[len(s)-1] == '`' {
		s = " " + s + " "
	}
	return fence + s + fence
}

// Fence is lines (see Lines) as a block of code with a fence longer than any in it. It begins and ends with a line of its
// own, and has a line break at its end.
func Fence(lines []string) string {
	most := 2
	for _, l := range lines {
		most = max(most, longestRun(l, '`'))
	}
	fence := strings.Repeat("`", most+1)
	var b strings.Builder
	b.WriteString(fence + "text\n")
	for _, l := range lines {
		b.WriteString(l + "\n")
	}
	b.WriteString(fence + "\n")
	return b.String()
}

// HTMLCode is text from outside as a <code> element on one line, for the few places where Markdown is not read: a
// <summary>.
func HTMLCode(s string) string {
	return "<code>" + html.EscapeString(Line(s)) + "</code>"
}

func longestRun(s string, c byte) int {
	most, run := 0, 0
	for i := range len(s) {
		if s[i] != c {
			run = 0
			continue
		}
		run++
		most = max(most, run)
	}
	return most
}
