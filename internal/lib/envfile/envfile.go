// Package envfile reads files of variables in the format of docker compose and dotenv.
package envfile

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/org/rollout-action/internal/lib/diag"
)

// maxSize is the maximum size of a file in bytes.
const maxSize = 1 << 20

// VariableName matches the names of variables that a shell accepts.
var VariableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Parse reads lines of the form NAME=value. It ignores empty lines, comments (# at the beginning of
// a line or after a blank), the word export before a name, blanks around a name and around a value,
// and names without a value. A value in single quotes is taken literally. In double quotes, \n, \r,
// \t, \\, \" and \$ are escapes. Both may have several lines. $ has no meaning: nothing is
// expanded. Of duplicate names, the last one wins.
//
// file is the name for messages. The error is a diag.List with the first problem, or the error of
// r. Values may be secrets, so no message shows one.
func Parse(file string, r io.Reader) (map[string]string, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxSize+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxSize {
		return nil, diag.List{{File: file, Message: "the file is larger than 1 MiB", Hint: "give a file of NAME=value lines"}}
	}
	text := strings.ReplaceAll(strings.TrimPrefix(string(data), "\ufeff"), "\r\n", "\n")
	p := parser{file: file, text: text, rest: text}
	vars := map[string]string{}
	for p.rest != "" {
		if err := p.line(vars); err != nil {
			return nil, err
		}
	}
	return vars, nil
}

// parser consumes lines from the front of rest, the unread end of text.
type parser struct{ file, text, rest string }

// problem returns an error about the line in which rest begins.
func (p *parser) problem(rest, hint, format string, args ...any) error {
	line := 1 + strings.Count(p.text[:len(p.text)-len(rest)], "\n")
	return diag.List{{File: p.file, Line: line, Message: fmt.Sprintf(format, args...), Hint: hint}}
}

// blanks are the characters that separate words in a line.
const blanks = " \t\r\f\v"

// line reads one line, or more if a value in quotes has several.
func (p *parser) line(vars map[string]string) error {
	start := p.rest
	line, after, _ := strings.Cut(p.rest, "\n")
	p.rest = after
	if !utf8.ValidString(line) || strings.ContainsRune(line, 0) {
		return p.problem(start, "save the file as UTF-8", "the line is not text in UTF-8")
	}
	line = strings.TrimLeft(line, blanks)
	if line == "" || line[0] == '#' {
		return nil
	}
	name, _, hasValue := strings.Cut(line, "=")
	if !hasValue {
		name, _, _ = strings.Cut(line, " #")
	}
	name = strings.Trim(name, blanks)
	if word, after, ok := strings.Cut(name, " "); ok && word == "export" {
		name = strings.Trim(after, blanks)
	}
	if !VariableName.MatchString(name) {
		return p.problem(start, "names have letters, digits and _", "not of the form NAME=value")
	}
	if !hasValue {
		return nil // docker takes such a variable from the host, which wins here anyway
	}
	// The value in the text, which may continue after the end of the line.
	value := strings.TrimLeft(start[strings.Index(start, "=")+1:], blanks)
	if value != "" && (value[0] == '\'' || value[0] == '"') {
		unquoted, after, err := p.quoted(name, value)
		vars[name], p.rest = unquoted, after
		return err
	}
	value, _, _ = strings.Cut(start[strings.Index(start, "=")+1:], "\n")
	vars[name] = strings.Trim(uncommented(value), blanks)
	return nil
}

// uncommented returns a line without the comment at its end.
func uncommented(line string) string {
	for i := 1; i < len(line); i++ {
		if line[i] == '#' && strings.IndexByte(blanks, line[i-1]) >= 0 {
			return line[:i]
		}
	}
	return line
}

// quoted returns the value in the quotes with which text begins, and the lines after it.
func (p *parser) quoted(name, text string) (value, rest string, err error) {
	quote := text[0]
	var out strings.Builder
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == 0:
			return "", "", p.problem(text, "save the file as UTF-8", "the value of %s has a zero byte", name)
		case c == quote:
			end, after, _ := strings.Cut(text[i+1:], "\n")
			if end = strings.Trim(end, blanks); end != "" && end[0] != '#' {
				return "", "", p.problem(text[i+1:], "put quotes around the whole value, or write \\\" inside of double quotes", "there is something after the value of %s", name)
			}
			if !utf8.ValidString(out.String()) {
				return "", "", p.problem(text, "save the file as UTF-8", "the value of %s is not UTF-8", name)
			}
			return out.String(), after, nil
		case c == '\\' && quote == '"' && i+1 < len(text) && strings.IndexByte(escapes, text[i+1]) >= 0:
			i++
			out.WriteByte(escaped[strings.IndexByte(escapes, text[i])])
		default:
			out.WriteByte(c)
		}
	}
	return "", "", p.problem(text, "close the quotes, or put single quotes around a value with a double one", "the quotes around the value of %s are never closed", name)
}

// The characters after a backslash in double quotes, and their meanings.
const (
	escapes = `nrt\"$`
	escaped = "\n\r\t\\\"$"
)
