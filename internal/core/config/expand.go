package config

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/org/rollout-action/internal/lib/fields"
)

// variableName matches the names of shell variables.
var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expansion is a text with its placeholders replaced.
type expansion struct {
	value     string
	host      map[string]string // the host's variables that it uses, and their values
	unset     []string          // variables that are unset and have no default
	missing   []string          // the same, if that is no problem
	malformed string            // the first invalid placeholder and the reason
}

// References returns the names of the host's variables that a value of agents[].env refers to.
func References(value string) []string {
	var names []string
	expand(value, func(name string) (string, bool) {
		names = append(names, name)
		return "", true
	})
	return names
}

// expand replaces ${VAR} and ${VAR:-default} (used if VAR is unset or empty) in s with values from
// getenv, and $$ with $. Any other $ stays. Placeholders do not nest.
func expand(s string, getenv func(string) (string, bool)) expansion {
	var out strings.Builder
	e := expansion{host: map[string]string{}}
	for {
		before, rest, found := strings.Cut(s, "$")
		out.WriteString(before)
		if !found {
			break
		}
		switch {
		case strings.HasPrefix(rest, "$"):
			out.WriteByte('$')
			s = rest[1:]
		case strings.HasPrefix(rest, "{"):
			inner, after, closed := strings.Cut(rest[1:], "}")
			if !closed {
				e.fail("$"+rest, "has no closing }")
				inner, after = "", ""
			}
			out.WriteString(e.placeholder(inner, getenv))
			s = after
		default:
			out.WriteByte('$')
			s = rest
		}
	}
	e.value = out.String()
	return e
}

// placeholder returns the text for ${inner}.
func (e *expansion) placeholder(inner string, getenv func(string) (string, bool)) string {
	name, fallback, hasDefault := strings.Cut(inner, ":-")
	switch {
	case e.malformed != "":
		return ""
	case strings.Contains(fallback, "${"):
		e.fail("${"+inner+"}", "contains another placeholder")
		return ""
	case !variableName.MatchString(name):
		e.fail("${"+inner+"}", "does not name a variable")
		return ""
	}
	value, set := getenv(name)
	switch {
	case hasDefault && value == "":
		return strings.ReplaceAll(fallback, "$$", "$")
	case !set:
		e.unset = append(e.unset, name)
	default:
		e.host[name] = value
	}
	return value
}

func (e *expansion) fail(placeholder, why string) {
	if e.malformed == "" {
		e.malformed = fmt.Sprintf("%q %s", fields.Shorten(placeholder), why)
	}
}
