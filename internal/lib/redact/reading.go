package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A reading decodes the beginning of text, which is not empty: its first size bytes stand for
// symbols. No symbols means a separator to ignore. Size 0 means that it needs more text to decide;
// it must not return 0 if the text is final.
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

var letterEscapes = map[byte][]byte{'a': {'\a'}, 'b': {'\b'}, 'f': {'\f'}, 'n': {'\n'}, 'r': {'\r'}, 't': {'\t'}, 'v': {'\v'}}

// readBackslash decodes the escapes of JSON strings (\n, \", \u00e9) and additional ones of
// programming languages and shells: \x2f, \x{e9}, \u{e9}, \U000000e9, \303, and a backslash before
// any other ASCII character that is neither a letter nor a digit.
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
	if symbols, size := readNumbered(text, final); size != 1 {
		return symbols, size
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

// readNumbered decodes the escapes that JSON does not have: \303 in octal, \u{e9} and \x{e9} of any
// length, and \U with eight digits. Text begins with a backslash and has two bytes. Size 1: it is
// none of these.
func readNumbered(text []byte, final bool) ([]byte, int) {
	none := text[:1]
	switch c := text[1]; {
	case '0' <= c && c <= '7':
		code, end := 0, 1
		for end < len(text) && end < 4 && '0' <= text[end] && text[end] <= '7' {
			code, end = code<<3|int(text[end]-'0'), end+1
		}
		if end == len(text) && end < 4 && !final {
			return nil, 0
		}
		return []byte{byte(code)}, end
	case c == 'U':
		code, ok, more := hexNumber(text[2:], 8)
		switch {
		case more && !final:
			return nil, 0
		case ok && code <= utf8.MaxRune:
			return utf8.AppendRune(nil, rune(code)), 10
		}
	case (c == 'u' || c == 'x') && len(text) == 2 && !final:
		return nil, 0
	case (c == 'u' || c == 'x') && len(text) > 2 && text[2] == '{':
		const most = 8 // digits
		end := bytes.IndexByte(text[:min(len(text), most+4)], '}')
		if end < 0 && len(text) < most+4 && !final {
			return nil, 0
		}
		if end > 3 {
			if code, err := strconv.ParseUint(string(text[3:end]), 16, 32); err == nil && code <= utf8.MaxRune {
				return utf8.AppendRune(nil, rune(code)), end + 1
			}
		}
	}
	return none, 1
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
		if !isHexDigit(c) {
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

// maxReference exceeds the length of all character references of HTML. The longest has 33 bytes.
const maxReference = 40

// readHTML decodes the character references of HTML and XML: &amp; &quot; &#39; &#x27; and all
// other names of HTML. Without a semicolon they are text.
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

// readShell undoes the two ways in which shells put a single quote between single quotes: '\” and
// '"'"'.
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

// readDoubled undoes the doubling of quotes, as in CSV, SQL, YAML and PowerShell.
func readDoubled(text []byte, final bool) ([]byte, int) {
	switch c := text[0]; {
	case c != '\'' && c != '"':
		return text[:1], 1
	case len(text) == 1:
		if final {
			return text, 1
		}
		return nil, 0
	case text[1] == c:
		return text[:1], 2
	}
	return text[:1], 1
}

// startsWith returns the size of prefix if text starts with it, else 0; more means that text ends
// within a possible prefix.
func startsWith(text []byte, prefix string) (size int, more bool) {
	if len(text) < len(prefix) {
		return 0, string(text) == prefix[:len(text)]
	}
	if string(text[:len(prefix)]) == prefix {
		return len(prefix), false
	}
	return 0, false
}

// escaping is a method of escaping text.
type escaping struct {
	read    reading
	escapes string // the bytes that begin an escape: the reading returns all others as they are; "": every byte may
	// next reports whether a byte after one of escapes makes it an escape; nil: every one does.
	next func(escape, c byte) bool
}

// find returns the index of the first escape in text, or its length. At the end of text, a byte of
// escapes counts as one.
func (e escaping) find(text []byte) int {
	first := len(text)
	for _, escape := range []byte(e.escapes) {
		for from := 0; from < first; {
			i := bytes.IndexByte(text[from:first], escape)
			if i < 0 {
				break
			}
			if from += i; e.next == nil || from+1 == len(text) || e.next(escape, text[from+1]) {
				first = from
				break
			}
			from++
		}
	}
	return first
}

// maxEscape exceeds the length of all escapes, also of those in two rounds.
const maxEscape = 64

// within returns the reading of text that was escaped twice: inner undoes the first escaping, outer
// the second.
func within(outer, inner escaping) escaping {
	isOuter, isInner := bytesIn(outer.escapes), bytesIn(inner.escapes)
	read := func(text []byte, final bool) ([]byte, int) {
		if c := text[0]; !isOuter[c] {
			if !isInner[c] {
				return text[:1], 1
			}
			plain := text[:min(len(text), maxEscape)] // up to an escape of outer, which mostly is not there
			for i, c := range plain {
				if isOuter[c] {
					plain = plain[:i]
					break
				}
			}
			if symbols, size := inner.read(plain, final && len(plain) == len(text)); size > 0 {
				return symbols, size
			}
		}
		symbols, size := outer.read(text, final)
		if size == 0 || len(symbols) != 1 || !isInner[symbols[0]] { // more symbols are a character beyond ASCII, which begins no escape
			return symbols, size
		}
		return readDecoded(outer.read, inner.read, text, final)
	}
	return escaping{read, outer.escapes + inner.escapes, nil}
}

// readDecoded applies inner to the output of outer.
func readDecoded(outer, inner reading, text []byte, final bool) ([]byte, int) {
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
		at += size
		for _, symbol := range symbols {
			decoded, ends = append(decoded, symbol), append(ends, at)
		}
	}
}

func bytesIn(all string) (in [256]bool) {
	for _, c := range []byte(all) {
		in[c] = true
	}
	return in
}

// hexSeparators are separators between the bytes of a hexadecimal dump, longer ones first.
var hexSeparators = []string{",\n    0x", ",\n  0x", ",\n\t0x", ",\n0x", "\r\n ", "\n ", `\n `, ", 0x", ",0x", ", ", "\r\n", `\r\n`, `\n`, `\x`, "\n", "  ", " ", ":", "-"}

// lineOfDump matches the text between the last byte of a line of a dump (xxd, hexdump -C, od) and
// the first byte of the next line: the text of the bytes, a line break, and the offset of the next
// line. A match is always shorter than dumpLength.
var lineOfDump = regexp.MustCompile(`^(?: {2,3}\|?.{0,64}?)?(?:\r?\n|\\n)[0-9A-Fa-f]{6,16}:?[ \t]+`)

const dumpLength = 100

// readHex ignores separators and the case of digits.
func readHex(text []byte, final bool) ([]byte, int) {
	c := text[0]
	if isAlphanumeric(c) {
		return []byte{c | 0x20}, 1 // digits have this bit set
	}
	waiting := false
	if c == ' ' || c == '\r' || c == '\n' || c == '\\' {
		gap := len(text) > 4 && text[1] == ' ' && isHexDigit(text[2]) && isHexDigit(text[3]) && text[4] == ' ' // in the middle of a line
		if at := lineOfDump.FindIndex(text[:min(len(text), dumpLength)]); !gap && at != nil && (at[1] < len(text) || final) {
			return nil, at[1]
		}
		waiting = !gap && len(text) < dumpLength && !final && mayBeDump(text)
	}
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

// mayBeDump reports whether text, which is shorter than dumpLength, may be the beginning of a match
// of lineOfDump.
func mayBeDump(text []byte) bool {
	if text[0] == ' ' {
		end := bytes.IndexByte(text, '\n')
		if end < 0 { // the column with the text is set off by two spaces
			return len(text) == 1 || text[1] == ' '
		}
		text = text[end:]
	}
	rest := bytes.TrimLeft(bytes.TrimPrefix(text, []byte(`\n`)), "\r\n\\")
	digits := 0
	for digits < len(rest) && isHexDigit(rest[digits]) {
		digits++
	}
	return digits <= 16 && (digits == len(rest) || digits >= 6 && strings.Trim(string(rest[digits:]), ": \t") == "")
}

func isHexDigit(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// hexForm returns the text to search for to find s in hexadecimal.
func hexForm(s string) string { return hex.EncodeToString([]byte(s)) }

// wordForms returns the texts to search for to find s in a hexadecimal dump of words, whose low
// byte is the first (hexdump, od -x, xxd -e): the whole words of 2, 4 or 8 bytes in s, wherever the
// first of them begins.
func wordForms(s string) []string {
	var out []string
	for _, width := range []int{2, 4, 8} {
		for from := range width {
			var words []byte
			for at := from; at+width <= len(s); at += width {
				word := []byte(s[at : at+width])
				slices.Reverse(word)
				words = append(words, word...)
			}
			if len(words) >= minSecret-2 {
				out = append(out, hex.EncodeToString(words))
			}
		}
	}
	return out
}

// readBase64 ignores line breaks, also in the form of JSON strings: tools wrap after 64 or 76
// characters, and logs of agents are JSON.
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

// base64Forms returns the texts to search for to find s in base64: s encoded alone, and the
// characters that depend only on s if 0, 1 or 2 bytes (and any number of triples) come before it.
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

// wideForms returns s in UTF-16, without its first zero byte or its last, so that both orders of
// bytes are found.
func wideForms(s string) []string {
	var little, big []byte
	for _, unit := range utf16.Encode([]rune(s)) {
		little, big = append(little, byte(unit), byte(unit>>8)), append(big, byte(unit>>8), byte(unit))
	}
	return []string{string(little), string(big)}
}

// beforeBase64 returns the forms of s that are searched for in base64.
func beforeBase64(s string) []string {
	quoted, err := json.Marshal(s)
	if err != nil {
		panic(err) // a text
	}
	forms := []string{s, base64.StdEncoding.EncodeToString([]byte(s)), string(quoted[1 : len(quoted)-1]), url.QueryEscape(s), url.PathEscape(s)}
	slices.Sort(forms)
	return slices.Compact(forms)
}
