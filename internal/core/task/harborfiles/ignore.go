package harborfiles

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// maxIgnore and maxPatterns limit a file of patterns, because every file is compared with every
// pattern.
const (
	maxIgnore   = 64 << 10
	maxPatterns = 500
)

// dialect is one of the two meanings of patterns that the library of Harbor has.
type dialect int

const (
	// asDocumented differs from git: a pattern for files in a directory that is ignored counts.
	// Source: pathspec 1.1, patterns/gitignore/basic.py.
	asDocumented dialect = iota
	// asGit: a pattern that names a path decides before one that names a directory above it.
	// Source: pathspec 1.1, patterns/gitignore/spec.py, _backends/simple/gitignore.py.
	asGit
)

// slash returns the expression for the slash after a directory that a pattern names. Of asGit, it
// is a group.
func (d dialect) slash() string {
	if d == asGit {
		return "(/)"
	}
	return "/"
}

// rules are the patterns of a file, in its order.
type rules []pattern

type pattern struct {
	matches *regexp.Regexp
	include bool // it begins with !
}

// match reports whether the rules exclude a file, and whether they decide about it. A directory
// ends with a slash.
func (r rules) match(file string) (excluded, decided bool) {
	for _, p := range slices.Backward(r) {
		found := p.matches.FindStringSubmatchIndex(file)
		byDirectory := len(found) > 2 && found[2] >= 0
		switch {
		case found != nil && !byDirectory:
			return !p.include, true
		case found != nil && !decided:
			excluded, decided = !p.include, true
		}
	}
	return excluded, decided
}

// errVersions means that versions 1.0 and 1.1 of the library read a pattern in different ways: one
// that begins with white space, and a bracket without an end.
var errVersions = errors.New("a pattern without a fixed meaning")

// parse reads the patterns of a file.
func parse(name, text string, as dialect) (rules, error) {
	var out rules
	for line := range strings.FieldsFuncSeq(text, endsLine) {
		if !strings.HasSuffix(line, `\ `) {
			line = strings.TrimRightFunc(line, isSpace)
		}
		if line == "" || strings.HasPrefix(line, "#") || line == "/" && as == asGit {
			continue
		}
		var p pattern
		line, p.include = strings.CutPrefix(line, "!")
		expression, err := as.translate(line)
		if as == asGit && strings.TrimLeftFunc(line, isSpace) != line {
			err = errVersions
		}
		if err == nil {
			p.matches, err = regexp.Compile(expression)
		}
		if err != nil || len(out) == maxPatterns {
			return nil, fmt.Errorf("%w: %s has the pattern %q, or more than %d", ErrUnknown, name, line, maxPatterns)
		}
		out = append(out, p)
	}
	return out, nil
}

// endsLine reports whether a character ends a line. Source: Python, str.splitlines.
func endsLine(r rune) bool {
	return '\n' <= r && r <= '\r' || 0x1c <= r && r <= 0x1e || r == 0x85 || r == 0x2028 || r == 0x2029
}

// isSpace reports whether Python strips a character.
func isSpace(r rune) bool { return unicode.IsSpace(r) || 0x1c <= r && r <= 0x1f }

// translate returns the regular expression of a pattern.
func (d dialect) translate(text string) (string, error) {
	segments := strings.Split(text, "/")
	switch n := len(segments); {
	case text == "" || text == "/":
		return "", fmt.Errorf("pattern %q", text)
	case segments[0] == "":
		segments = segments[1:]
	case n == 1 || n == 2 && segments[1] == "":
		if segments[0] != "**" {
			segments = append([]string{"**"}, segments...)
		}
	}
	last := "/"
	if segments[len(segments)-1] == "" {
		segments[len(segments)-1], last = "**", d.slash()
	}
	directory := strings.HasSuffix(text, "/")
	segments = slices.CompactFunc(segments, func(a, b string) bool { return a == "**" && b == "**" })
	switch strings.Join(segments, "/") {
	case "**":
		if directory {
			return last, nil
		}
		return "", nil
	case "**/*":
		return "", nil
	case "**/*/**":
		return last, nil
	}
	return d.expression(segments, last)
}

// expression returns that of several segments. below is that of a "**" at their end.
func (d dialect) expression(segments []string, below string) (string, error) {
	var b strings.Builder
	slash := false
	for i, segment := range segments {
		last := i == len(segments)-1
		switch {
		case segment == "**" && i == 0:
			b.WriteString("^(?:.+/)?")
			continue
		case segment == "**" && last:
			b.WriteString(below)
			continue
		case segment == "**":
			b.WriteString("(?:/.+)?")
			slash = true
			continue
		case i == 0:
			b.WriteString("^")
		}
		if slash {
			b.WriteString("/")
		}
		slash = true
		if segment == "*" {
			b.WriteString("[^/]+")
			if last && d == asDocumented {
				b.WriteString("/?$")
				continue
			}
		} else {
			glob, err := d.globOf(segment)
			if err != nil {
				return "", err
			}
			b.WriteString(glob)
		}
		if last {
			b.WriteString("(?:" + d.slash() + "|$)")
		}
	}
	return b.String(), nil
}

// globOf returns the regular expression of a segment of a path.
func (d dialect) globOf(segment string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(segment); i++ {
		switch c := segment[i]; c {
		case '\\':
			if i++; i == len(segment) {
				return "", fmt.Errorf("pattern %q ends with a backslash", segment)
			}
			b.WriteString(regexp.QuoteMeta(segment[i : i+1]))
		case '*':
			b.WriteString("[^/]*")
		case '?':
			b.WriteString("[^/]")
		case '[':
			set, n := setOf(segment[i:])
			if n == 1 && d == asGit {
				return "", errVersions
			}
			b.WriteString(set)
			i += n - 1
		default:
			b.WriteString(regexp.QuoteMeta(segment[i : i+1]))
		}
	}
	return b.String(), nil
}

// setOf returns the regular expression of a set of characters that text begins with, and its length
// in text. A set that does not end is a bracket.
func setOf(text string) (set string, n int) {
	at, negated := 1, ""
	if at < len(text) && (text[at] == '!' || text[at] == '^') {
		at, negated = at+1, "^"
	}
	begin := at
	if at < len(text) && text[at] == ']' {
		at++
	}
	end := strings.IndexByte(text[min(at, len(text)):], ']')
	if end < 0 {
		return `\[`, 1
	}
	inner := strings.NewReplacer(`\`, `\\`, `[`, `\[`).Replace(text[begin : at+end])
	if after, ok := strings.CutPrefix(inner, "]"); ok {
		inner = `\]` + after
	}
	return "[" + negated + inner + "]", at + end + 1
}
