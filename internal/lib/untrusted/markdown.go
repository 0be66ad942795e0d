package untrusted

import (
	"html"
	"strings"
)

// gap is a zero-width character, written as a reference so that it shows in the source. GitHub
// finds mentions, issues, commits, emoji and URLs in rendered text, where backslashes are gone, but
// a gap remains.
const gap = "&#8203;"

// commitDigits is the maximum number of consecutive hexadecimal digits that GitHub does not link to
// a commit: it requires seven.
const commitDigits = 6

// Markdown returns untrusted text as one line of Markdown that renders as that text and nothing
// else, in paragraphs, lists and table cells: no emphasis, link, image, HTML, math, reference or
// mention. Text that looks like a commit becomes code, as GitHub would link it. Unlike Code, it
// suits the words of a sentence. Sources: CommonMark 0.31, GFM 0.29 (tables, autolinks), and
// observed links of GitHub in rendered text.
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

// word returns the length of the word at the start of s: ASCII letters, digits and underscores,
// which delimit commits.
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
		b.WriteString("`" + w + "`") // a gap would be copied along
	case strings.EqualFold(w, "www") && strings.HasPrefix(rest, "."):
		b.WriteString(w + gap)
	default:
		b.WriteString(strings.ReplaceAll(w, "_", `\_`))
	}
}

// writeMark writes the byte at i, which is not part of a word.
func writeMark(b *strings.Builder, s string, i int) {
	c, next := s[i], byte(0)
	if i+1 < len(s) {
		next = s[i+1]
	}
	switch c {
	case '<', '>', '&', '|', '$': // a reference works where a backslash does not: in tables, and for math
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

// Code returns untrusted text as a Markdown code span for paragraphs and table cells. GitHub adds
// no links or mentions in code. Text with a pipe becomes plain Markdown: in a table, no form of
// code can contain one in all renderers.
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

// Fence returns lines (see Lines) as a fenced code block, with a fence longer than any in the text.
// It ends with a line break.
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

// HTMLCode returns untrusted text as a <code> element on one line, for the places where Markdown is
// not parsed, such as <summary>.
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
