package config

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/fields"
)

// The placeholders of name.
const (
	nameDate   = "date"
	nameCommit = "commit"
	nameRun    = "run"
)

var namePlaceholders = []string{nameDate, nameCommit, nameRun}

// nameCommitLength is the length of the commit that replaces {commit}.
const nameCommitLength = 12

// inBraces matches possible placeholders in a name.
var inBraces = regexp.MustCompile(`\{[^{}]*\}`)

// NameMatches reports whether a job whose name in the job file is asked, which may have
// placeholders, can be named name.
func NameMatches(asked, name string) bool {
	var pattern strings.Builder
	pattern.WriteString("^")
	rest := asked
	for _, at := range inBraces.FindAllStringIndex(asked, -1) {
		pattern.WriteString(regexp.QuoteMeta(asked[len(asked)-len(rest) : at[0]]))
		switch strings.Trim(asked[at[0]:at[1]], "{}") {
		case nameDate:
			pattern.WriteString(`\d{4}-\d{2}-\d{2}`)
		case nameCommit:
			fmt.Fprintf(&pattern, `[0-9a-f]{1,%d}`, nameCommitLength)
		case nameRun:
			pattern.WriteString(`[0-9.-]+`)
		default:
			pattern.WriteString(regexp.QuoteMeta(asked[at[0]:at[1]]))
		}
		rest = asked[at[1]:]
	}
	pattern.WriteString(regexp.QuoteMeta(rest) + "$")
	return regexp.MustCompile(pattern.String()).MatchString(name)
}

// expandName replaces the placeholders in the job's name. It reports false after a problem.
func (c *checker) expandName() bool {
	at, numbered, sound := fields.Path{"name"}, false, true
	c.out.NameAsWritten = c.out.Job.Name
	name := inBraces.ReplaceAllStringFunc(c.out.Job.Name, func(placeholder string) string {
		switch word := strings.Trim(placeholder, "{}"); word {
		case nameDate:
			return c.opts.Now().UTC().Format("2006-01-02")
		case nameCommit:
			if commit := c.commit(); commit != "" {
				return commit[:min(nameCommitLength, len(commit))]
			}
			c.Problem(at, "use {date} or {run}, or run it in a checkout", "name: there is no {commit}, as the job file is in no git repository with a commit")
		case nameRun:
			if c.opts.Run != "" {
				return c.opts.Run
			}
			numbered = true
			return placeholder
		default:
			hint := diag.DidYouMean(word, namePlaceholders)
			if hint == "" {
				hint = fmt.Sprintf("there are: {%s}", strings.Join(namePlaceholders, "}, {"))
			}
			c.Problem(at, hint, "name: unknown placeholder %q", fields.Shorten(placeholder))
		}
		sound = false
		return ""
	})
	if numbered {
		pattern := name
		c.out.Numbered = func(n int) string { return strings.ReplaceAll(pattern, "{"+nameRun+"}", strconv.Itoa(n)) }
		name = c.out.Numbered(1)
	}
	c.out.Job.Name = name
	return sound
}

// commit returns the commit of the job file's repository; "" if there is none.
func (c *checker) commit() string {
	if c.opts.Commit == nil {
		return ""
	}
	return c.opts.Commit()
}
