package hubdigest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// maxIgnore and maxPatterns limit a .gitignore, because every file is compared with every pattern.
const (
	maxIgnore   = 64 << 10
	maxPatterns = 500
)

// rules are the patterns of a .gitignore, in its order. They mean what they mean to the library
// that Harbor uses, which differs from git: a pattern for files in a directory that is ignored
// counts. Source: pathspec 1.0, patterns/gitignore/basic.py.
type rules []pattern

type pattern struct {
	matches *regexp.Regexp
	include bool // it begins with !
}

// match reports whether a file does not count.
func (r rules) match(file string) bool {
	for _, p := range slices.Backward(r) {
		if p.matches.MatchString(file) {
			return !p.include
		}
	}
	return false
}

func parse(text string) (rules, error) {
	var out rules
	for line := range strings.SplitSeq(text, "\n") {
		if !strings.HasSuffix(line, `\ `) {
			line = strings.TrimRight(line, " \t\v\f")
		}
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		var p pattern
		line, p.include = strings.CutPrefix(line, "!")
		expression, err := translate(line)
		if err == nil {
			p.matches, err = regexp.Compile(expression)
		}
		if err != nil || len(out) == maxPatterns {
			return nil, fmt.Errorf("%w: %s has the pattern %q, or more than %d", ErrUnknown, ignoreFile, line, maxPatterns)
		}
		out = append(out, p)
	}
	return out, nil
}

// translate returns the regular expression of a pattern.
func translate(text string) (string, error) {
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
	directory := segments[len(segments)-1] == ""
	if directory {
		segments[len(segments)-1] = "**"
	}
	segments = slices.CompactFunc(segments, func(a, b string) bool { return a == "**" && b == "**" })
	switch strings.Join(segments, "/") {
	case "**":
		if directory {
			return "/", nil
		}
		return "", nil
	case "**/*":
		return "", nil
	case "**/*/**":
		return "/", nil
	}
	return expression(segments)
}

func expression(segments []string) (string, error) {
	var b strings.Builder
	slash := false
	for i, segment := range segments {
		last := i == len(segments)-1
		switch {
		case segment == "**" && i == 0:
			b.WriteString("^(?:.+/)?")
			continue
		case segment == "**" && last:
			b.WriteString("/")
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
			if last {
				b.WriteString("/?$")
			}
			continue
		}
		glob, err := globOf(segment)
		if err != nil {
			return "", err
		}
		b.WriteString(glob)
		if last {
			b.WriteString("(?:/|$)")
		}
	}
	return b.String(), nil
}

// globOf returns the regular expression of a segment of a path.
func globOf(segment string) (string, error) {
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
