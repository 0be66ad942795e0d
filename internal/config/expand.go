package config

import (
	"fmt"
	"regexp"
	"strings"
)

// variableName is what a shell accepts as the name of a variable.
var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expansion is a text with its placeholders replaced.
type expansion struct {
	value     string
	host      map[string]string // the variables of the host that are in it, and their values
	unset     []string          // variables that are not set and have no default
	malformed string            // the first placeholder that cannot be read, with why
}

// References are the variables of the host that a value of agents[].env takes its text from, if they are set.
func References(value string) []string {
	var names []string
	expand(value, func(name string) (string, bool) {
		names = append(names, name)
		return "", true
	})
	return names
}

// expand replaces ${VAR} and ${VAR:-default} (for an unset or empty VAR) in s by what getenv says, and
// $$ by $. Any other $ stays as it is. Placeholders do not nest.
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

// placeholder is the text for ${inner}.
func (e *expansion) placeholder(inner string, getenv func(string) (string, bool)) string {
	name, fallback, hasDefault := strings.Cut(inner, ":-")
	switch {
	case e.malformed != "":
		return ""
	case strings.Contains(fallback, "${"):
		e.fail("${"+inner+"}", "holds another placeholder")
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
		e.malformed = fmt.Sprintf("%q %s", shorten(placeholder), why)
	}
}
