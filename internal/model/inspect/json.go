package inspect

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// maxDepth bounds the depth of JSON. Recursive readers would otherwise run out of memory.
const maxDepth = 1000

// Valid reports whether text is JSON of a reasonable depth.
func Valid(text []byte) bool {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			if i = stringEnd(text, i) - 1; i < 0 {
				return false
			}
		case '[', '{':
			if depth++; depth > maxDepth {
				return false
			}
		case ']', '}':
			depth--
		}
	}
	return gjson.ValidBytes(text)
}

// stringEnd returns the index after the closing quotation mark of the string at i, or 0 if it has
// none.
func stringEnd(text []byte, i int) int {
	for i++; i < len(text); i++ {
		n := bytes.IndexByte(text[i:], '"')
		if n < 0 {
			return 0
		}
		escapes := 0
		for escapes < n && text[i+n-1-escapes] == '\\' {
			escapes++
		}
		i += n
		if escapes%2 == 0 {
			return i + 1
		}
	}
	return 0
}

// valueEnd returns the end of the value at i. The text is valid.
func valueEnd(text []byte, i int) int {
	switch text[i] {
	case '"':
		return stringEnd(text, i)
	case '[', '{':
		for depth := 0; i < len(text); i++ {
			switch text[i] {
			case '"':
				i = stringEnd(text, i) - 1
			case '[', '{':
				depth++
			case ']', '}':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
		return len(text)
	}
	for i < len(text) && !strings.ContainsRune(",]} \t\r\n", rune(text[i])) {
		i++
	}
	return i
}

// space returns the end of the white space at i.
func space(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\t' || text[i] == '\r' || text[i] == '\n') {
		i++
	}
	return i
}

// unquoted returns the text of a JSON string.
func unquoted(raw []byte) string {
	if len(raw) < 2 || raw[0] != '"' {
		return ""
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	var text string
	_ = json.Unmarshal(raw, &text) // it is valid
	return text
}

// plain returns a key in the form that the most lenient readers compare: without case, as in Go,
// and without underscores, as at Google, where systemInstruction and system_instruction are the
// same.
func plain(key string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '_':
			return -1
		case 'ſ', 'K': // they fold to ASCII letters
			return map[rune]rune{'ſ': 's', 'K': 'k'}[r]
		}
		return r
	}, strings.ToLower(key))
}

// edit replaces a part of a text.
type edit struct {
	at, end int
	by      []byte
}

// applied returns a text with edits applied. Edits within others have no effect.
func applied(text []byte, edits []edit) []byte {
	if len(edits) == 0 {
		return text
	}
	slices.SortStableFunc(edits, func(a, b edit) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.end, a.end)) })
	out := make([]byte, 0, len(text))
	done := 0
	for _, e := range edits {
		if e.at < done {
			continue
		}
		out = append(append(out, text[done:e.at]...), e.by...)
		done = e.end
	}
	return append(out, text[done:]...)
}

// span is an element of a list, or a member of an object with its key.
type span struct {
	at, end int
	removed bool
}

// removals returns the edits that remove spans with the commas between them.
func removals(list []span) []edit {
	var out []edit
	kept := false // one before
	for i, one := range list {
		switch {
		case !one.removed:
			kept = true
		case kept:
			out = append(out, edit{at: list[i-1].end, end: one.end})
		case i+1 < len(list):
			out = append(out, edit{at: one.at, end: list[i+1].at})
		default:
			out = append(out, edit{at: one.at, end: one.end})
		}
	}
	return out
}
