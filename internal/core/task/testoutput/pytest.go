package testoutput

import (
	"errors"
	"regexp"
	"strings"
)

// summary matches the line before pytest's short summary, in any case as Python's re.IGNORECASE
// matches it: ı and ſ are i and s there.
var summary = regexp.MustCompile(`=+[` + spaces + `]*(?:[sSſ][hH][oO][rR][tT] [tT][eE][sSſ][tT] [sSſ][uU][mM][mM][aA][rR][yY] [iIİı][nN][fF][oO])[` + spaces + `]*=+`)

// passes maps the words of the summary to whether the test counts as passed.
// Source: terminal-bench 0.2.18, parsers/pytest_parser.py.
var passes = map[string]bool{
	"PASSED": true, "XFAIL": true, "SKIPPED": true,
	"FAILED": false, "XPASS": false, "ERROR": false,
}

// pytest reads the short test summary.
func pytest(output string) (Results, error) {
	at := summary.FindStringIndex(output)
	if at == nil {
		return nil, errors.New(`it has no "short test summary info", which pytest -rA prints`)
	}
	results := Results{}
	for _, line := range lines(output[at[1]:]) {
		name, passed, ok := resultLine(line)
		if !ok {
			continue
		}
		if err := results.add(name, passed); err != nil {
			return nil, err
		}
	}
	if len(results) == 0 {
		return nil, errEmpty
	}
	return results, nil
}

// resultLine reads "PASSED file::test" and the like.
func resultLine(line string) (name string, passed, ok bool) {
	if strings.HasPrefix(line, "FAILED") { // without the reason at its end
		if at := strings.LastIndex(line, " - "); at >= 0 {
			line = line[:at]
		}
	}
	line = trimLeft(line)
	end := strings.IndexFunc(line, isSpace)
	if end < 0 {
		return "", false, false
	}
	passed, ok = passes[strings.Trim(line[:end], ":")]
	rest := strip(line[end:])
	if !ok || rest == "" {
		return "", false, false
	}
	name = rest
	if _, after, found := strings.Cut(rest, "::"); found {
		name = after
	}
	return name, passed, name != ""
}
