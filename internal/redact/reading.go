package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"html"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A reading decodes the beginning of text, which is not empty: its first size bytes stand for symbols. No symbols means a
// separator to ignore. Size 0 means that it needs more text to decide; it must not return 0 if the text is final.
type reading func(text []byte, final bool) (symbols []byte, size int)

func readPlain(text []byte, _ bool) ([]byte, int) { return text[:1], 1 }

// readPercent decodes URL escapes: %XX is a byte.
func readPercent(text []byte, final bool) ([]byte, int) {
	if text[0] != '%' {
		return text[:1], 1
	}
	code, ok, more := hexNumber(text[1:], 2)
	switch {
	case more && !final:
		return nil, 0
	case !ok:
		return text[:1], 1
	}
	return []byte{byte(code)}, 3
}

var letterEscapes = map[byte][]byte{'b': {'\b'}, 'f': {'\f'}, 'n': {'\n'}, 'r': {'\r'}, 't': {'\t'}}

// readBackslash decodes the escapes of JSON strings (\n, \", \u00e9) and additional ones of programming languages and shells:
// \x2f, and a backslash before any other ASCII character that is neither a letter nor a digit.
func readBackslash(text []byte, final bool) ([]byte, int) {
	if text[0] != '\\' {
		return text[:1], 1
	}
	if len(text) == 1 {
		if final {
			return text, 1
		}
		return nil, 0
	}
	if symbols, ok := letterEscapes[text[1]]; ok {
		return symbols, 2
	}
	if c := text[1]; c >= ' ' && c < utf8.RuneSelf && !isAlphanumeric(c) {
		return text[1:2], 2
	}
	if text[1] == 'x' {
		code, ok, more := hexNumber(text[2:], 2)
		switch {
		case more && !final:
			return nil, 0
		case ok:
			return []byte{byte(code)}, 4
		}
	}
	unit, ok, more := jsonUnit(text)
	switch {
	case more && !final:
		return nil, 0
	case !ok:
		return text[:1], 1
	case !utf16.IsSurrogate(unit):
		return utf8.AppendRune(nil, unit), 6
	}
	second, ok, more := jsonUnit(text[6:])
	switch {
	case more && !final:
		return nil, 0
	case !ok:
		return utf8.AppendRune(nil, utf8.RuneError), 6
	}
	return utf8.AppendRune(nil, utf16.DecodeRune(unit, second)), 12
}

// jsonUnit decodes \uXXXX; more means that text ends within a possible one.
func jsonUnit(text []byte) (unit rune, ok, more bool) {
	const prefix = `\u`
	if len(text) < len(prefix) {
		return 0, false, string(text) == prefix[:len(text)]
	}
	if string(text[:len(prefix)]) != prefix {
		return 0, false, false
	}
	code, ok, more := hexNumber(text[len(prefix):], 4)
	return rune(code), ok, more
}

// hexNumber decodes exactly digits hexadecimal digits; more means that text ends within them.
func hexNumber(text []byte, digits int) (code uint64, ok, more bool) {
	more = len(text) < digits
	text = text[:min(digits, len(text))]
	for _, c := range text {
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F') {
			return 0, false, false
		}
	}
	if more {
		return 0, false, true
	}
	code, err := strconv.ParseUint(string(text), 16, 32)
	return code, err == nil, false
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// maxReference is a length that no character reference of HTML reaches. The longest has 33 bytes.
const maxReference = 40

// readHTML decodes the character references of HTML and XML: &amp; &quot; &#39; &#x27; and all other names of HTML. Without a
// semicolon they are text.
func readHTML(text []byte, final bool) ([]byte, int) {
	if text[0] != '&' {
		return text[:1], 1
	}
	for i, c := range text[1:min(len(text), maxReference)] {
		switch {
		case c == ';':
			reference := string(text[:i+2])
			if symbols := html.UnescapeString(reference); symbols != reference {
				return []byte(symbols), len(reference)
			}
			return text[:1], 1
		case !isAlphanumeric(c) && c != '#':
			return text[:1], 1
		}
	}
	if !final && len(text) < maxReference {
		return nil, 0
	}
	return text[:1], 1
}

// readShell undoes the two ways in which shells put a single quote between single quotes: '\” and '"'"'.
func readShell(text []byte, final bool) ([]byte, int) {
	if text[0] != '\'' {
		return text[:1], 1
	}
	for _, quote := range []string{`'\''`, `'"'"'`} {
		if size, more := startsWith(text, quote); size > 0 {
			return text[:1], size
		} else if more && !final {
			return nil, 0
		}
	}
	return text[:1], 1
}

// startsWith returns the size of prefix if text starts with it, else 0; more means that text ends within a possible prefix.
func startsWith(text []byte, prefix string) (size int, more bool) {
	if len(text) < len(prefix) {
		return 0, string(text) == prefix[:len(text)]
	}
	if string(text[:len(prefix)]) == prefix {
		return len(prefix), false
	}
	return 0, false
}

// within returns the reading of text that was escaped twice: inner undoes the first escaping, outer the second. escapes are
// the bytes that begin an escape of either.
func within(outer, inner reading, escapes string) reading {
	return func(text []byte, final bool) ([]byte, int) {
		if strings.IndexByte(escapes, text[0]) < 0 {
			return text[:1], 1
		}
		var decoded []byte // the output of outer
		var ends []int     // for each byte of decoded, the end of its escape in text
		for at := 0; ; {
			if len(decoded) > 0 {
				symbols, size := inner(decoded, final && at == len(text))
				if size > 0 {
					return bytes.Clone(symbols), ends[size-1]
				}
			}
			if at == len(text) {
				return nil, 0
			}
			symbols, size := outer(text[at:], final)
			if size == 0 {
				return nil, 0
			}
			if at == 0 && len(symbols) > 1 { // a character beyond ASCII, which begins no escape
				return symbols, size
			}
			at += size
			for _, symbol := range symbols {
				decoded, ends = append(decoded, symbol), append(ends, at)
			}
		}
	}
}

// hexSeparators are separators between the bytes of a hexadecimal dump, longer ones first.
var hexSeparators = []string{", 0x", ",0x", ", ", "\r\n", `\r\n`, `\n`, `\x`, "\n", " ", ":", "-"}

// readHex ignores separators and the case of digits.
func readHex(text []byte, final bool) ([]byte, int) {
	c := text[0]
	if isAlphanumeric(c) {
		return []byte{c | 0x20}, 1 // digits have this bit set
	}
	waiting := false
	for _, separator := range hexSeparators {
		size, more := startsWith(text, separator)
		if size > 0 && !waiting {
			return nil, size
		}
		waiting = waiting || more && !final
	}
	if waiting {
		return nil, 0
	}
	return text[:1], 1
}

// hexForm returns the text to search for to find s in hexadecimal.
func hexForm(s string) string { return hex.EncodeToString([]byte(s)) }

// readBase64 ignores line breaks, also in the form of JSON strings: tools wrap after 64 or 76 characters, and logs of agents are
// JSON.
func readBase64(text []byte, final bool) ([]byte, int) {
	if c := text[0]; c != '\r' && c != '\n' && c != '\\' {
		return text[:1], 1
	}
	for _, br := range []string{"\r\n", `\r\n`, "\n", `\n`} {
		if size, more := startsWith(text, br); size > 0 {
			return nil, size
		} else if more && !final {
			return nil, 0
		}
	}
	return text[:1], 1
}

// base64Forms returns the texts to search for to find s in base64: s encoded alone, and the characters that depend only on s if
// 0, 1 or 2 bytes (and any number of triples) come before it.
func base64Forms(s string) []string {
	var out []string
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		out = append(out, enc.EncodeToString([]byte(s)), enc.WithPadding(base64.NoPadding).EncodeToString([]byte(s)))
		for before := range 3 {
			text := enc.EncodeToString(append(make([]byte, before), s...))
			// A character stands for 6 bits: the first whole one of s is rounded up, the last down.
			out = append(out, text[(8*before+5)/6:8*(before+len(s))/6])
		}
	}
	return out
}
