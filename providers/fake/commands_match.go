package fake

import (
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// matchCommands know regular expressions: those of Go, written as grep and sed want them.
var matchCommands = map[string]func(*command) int{"grep": grep, "sed": sed}

// basic turns a basic regular expression into an extended one, by swapping what is escaped.
func basic(pattern string) string {
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		switch ch := pattern[i]; {
		case ch == '\\' && i+1 < len(pattern) && strings.IndexByte("(){}|+?", pattern[i+1]) >= 0:
			i++
			b.WriteByte(pattern[i])
		case ch == '\\' && i+1 < len(pattern):
			b.WriteString(pattern[i : i+2])
			i++
		case strings.IndexByte("(){}|+?", ch) >= 0:
			b.WriteString(`\` + string(ch))
		default:
			b.WriteByte(ch)
		}
	}
	return b.String()
}

func grep(c *command) int {
	flags, err := c.options("qsvicoEFnwxhe:", "quiet=q", "count=c", "invert-match=v", "ignore-case=i")
	if err != nil {
		return c.usage("%v", err)
	}
	pattern, ok := flags['e']
	if !ok {
		if len(c.args) == 0 {
			return c.usage("missing pattern")
		}
		pattern, c.args = c.args[0], c.args[1:]
	}
	re, err := grepPattern(pattern, flags)
	if err != nil {
		return c.usage("%v", err)
	}
	if flags['s'] != "" {
		c.stderr = io.Discard
	}
	found := 0
	code := c.each(c.args, func(name string, r io.Reader) error {
		prefix := ""
		if len(c.args) > 1 && flags['h'] == "" {
			prefix = name + ":"
		}
		n, err := c.grepOne(r, re, prefix, flags)
		found += n
		return err
	})
	switch {
	case found > 0 && (code == 0 || flags['q'] != ""):
		return 0
	case code != 0:
		return 2
	}
	return 1
}

// grepOne prints what flags ask for and returns the number of matching lines.
func (c *command) grepOne(r io.Reader, re *regexp.Regexp, prefix string, flags map[byte]string) (count int, err error) {
	number := 0
	err = c.lines(r, func(line string) bool {
		number++
		text := strings.TrimSuffix(line, "\n")
		if re.MatchString(text) == (flags['v'] != "") {
			return true
		}
		count++
		at := prefix
		if flags['n'] != "" {
			at += strconv.Itoa(number) + ":"
		}
		switch {
		case flags['q'] != "":
			return false
		case flags['c'] != "":
			return true
		case flags['o'] != "":
			return c.print("%s%s\n", at, strings.Join(re.FindAllString(text, -1), "\n"+at))
		}
		return c.print("%s%s\n", at, text)
	})
	if flags['c'] != "" && flags['q'] == "" {
		c.print("%s%d\n", prefix, count)
	}
	return count, err
}

func grepPattern(pattern string, flags map[byte]string) (*regexp.Regexp, error) {
	switch {
	case flags['F'] != "":
		pattern = regexp.QuoteMeta(pattern)
	case flags['E'] == "":
		pattern = basic(pattern)
	}
	if flags['w'] != "" {
		pattern = `\b(?:` + pattern + `)\b`
	}
	if flags['x'] != "" {
		pattern = "^(?:" + pattern + ")$"
	}
	if flags['i'] != "" {
		pattern = "(?i)" + pattern
	}
	return regexp.Compile(pattern)
}

// sed knows the command s and nothing else, and the options -i, -E and -e.
func sed(c *command) int {
	flags, err := c.options("iEre:")
	if err != nil {
		return c.usage("%v", err)
	}
	script, ok := flags['e']
	if !ok {
		if len(c.args) == 0 {
			return c.usage("missing script")
		}
		script, c.args = c.args[0], c.args[1:]
	}
	substitute, err := parseSubstitution(script, flags['E'] != "" || flags['r'] != "")
	if err != nil {
		return c.usage("%v", err)
	}
	return c.each(c.args, func(name string, r io.Reader) error {
		var changed strings.Builder
		err := c.lines(r, func(line string) bool {
			text, ended := strings.CutSuffix(line, "\n")
			text = substitute(text)
			if ended {
				text += "\n"
			}
			if flags['i'] != "" {
				changed.WriteString(text)
				return true
			}
			return c.print("%s", text)
		})
		if err == nil && flags['i'] != "" {
			err = c.m().writeFile(c.p, c.path(name), []byte(changed.String()), 0o644)
		}
		return err
	})
}

func parseSubstitution(script string, extended bool) (func(string) string, error) {
	if len(script) < 4 || script[0] != 's' {
		return nil, errors.New("only the command s is known")
	}
	parts := strings.Split(script[2:], script[1:2])
	if len(parts) != 3 {
		return nil, errors.New("want s/pattern/replacement/")
	}
	pattern := parts[0]
	if !extended {
		pattern = basic(pattern)
	}
	if strings.ContainsAny(parts[2], "iI") {
		pattern = "(?i)" + pattern
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	template := goTemplate(parts[1])
	all := strings.Contains(parts[2], "g")
	return func(line string) string {
		if all {
			return re.ReplaceAllString(line, template)
		}
		at := re.FindStringSubmatchIndex(line)
		if at == nil {
			return line
		}
		return line[:at[0]] + string(re.ExpandString(nil, template, line, at)) + line[at[1]:]
	}, nil
}

// goTemplate is a replacement of sed as Go writes it: a dollar begins a group there; in sed a backslash
// does, and & is all.
func goTemplate(sed string) string {
	var b strings.Builder
	for i := 0; i < len(sed); i++ {
		switch ch := sed[i]; {
		case ch == '$':
			b.WriteString("$$")
		case ch == '&':
			b.WriteString("${0}")
		case ch == '\\' && i+1 < len(sed):
			i++
			switch next := sed[i]; {
			case next >= '0' && next <= '9':
				b.WriteString("${" + string(next) + "}")
			case next == 'n':
				b.WriteByte('\n')
			default:
				b.WriteByte(next)
			}
		default:
			b.WriteByte(ch)
		}
	}
	return b.String()
}
