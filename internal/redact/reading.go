package redact

import (
	"encoding/base64"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// A reading decodes the begin of text, which is not empty: size bytes of it stand for symbols. No
// symbols is a line break to be ignored; size 0 means that more text is needed to tell, which is
// not an answer when the text is final.
type reading func(text []byte, final bool) (symbols []byte, size int)

func readPlain(text []byte, _ bool) ([]byte, int) { return text[:1], 1 }

// readPercent undoes URL escaping: %XX is a byte.
func readPercent(text []byte, final bool) ([]byte, int) {
	if text[0] != '%' {
		return text[:1], 1
	}
	code, ok, more := hex(text[1:], 2)
	switch {
	case more && !final:
		return nil, 0
	case !ok:
		return text[:1], 1
	}
	return []byte{byte(code)}, 3
}

var jsonEscapes = map[byte][]byte{
	'"': {'"'}, '\\': {'\\'}, '/': {'/'}, 'b': {'\b'}, 'f': {'\f'}, 'n': {'\n'}, 'r': {'\r'}, 't': {'\t'},
}

// readJSON undoes the escapes of JSON strings.
func readJSON(text []byte, final bool) ([]byte, int) {
	if text[0] != '\\' {
		return text[:1], 1
	}
	if len(text) == 1 {
		if final {
			return text, 1
		}
		return nil, 0
	}
	if symbols, ok := jsonEscapes[text[1]]; ok {
		return symbols, 2
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

// jsonUnit reads \uXXXX; more says that text ends within what could be one.
func jsonUnit(text []byte) (unit rune, ok, more bool) {
	const prefix = `\u`
	if len(text) < len(prefix) {
		return 0, false, string(text) == prefix[:len(text)]
	}
	if string(text[:len(prefix)]) != prefix {
		return 0, false, false
	}
	code, ok, more := hex(text[len(prefix):], 4)
	return rune(code), ok, more
}

// hex reads exactly digits hexadecimal digits; more says that text ends within them.
func hex(text []byte, digits int) (code uint64, ok, more bool) {
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

// readBase64 ignores line breaks, also as they stand in JSON strings: tools wrap after 64 or 76
// characters, and logs of agents are JSON.
func readBase64(text []byte, final bool) ([]byte, int) {
	if c := text[0]; c != '\r' && c != '\n' && c != '\\' {
		return text[:1], 1
	}
	for _, br := range []string{"\r\n", `\r\n`, "\n", `\n`} {
		if len(text) >= len(br) && string(text[:len(br)]) == br {
			return nil, len(br)
		}
		if !final && len(text) < len(br) && string(text) == br[:len(text)] {
			return nil, 0
		}
	}
	return text[:1], 1
}

// base64Forms are the texts by which s is recognised in base64: encoded by itself, and the
// characters that depend on s alone when 0, 1 or 2 bytes (and any number of threes) precede it.
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
