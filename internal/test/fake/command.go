package fake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
)

// command is one call of a command by a shell or by another command.
type command struct {
	x              *execution
	ctx            context.Context
	name           string
	args           []string // without flags
	flags          string
	env            expand.Environ
	dir            string
	stdin          *os.File // nil: empty
	stdout, stderr io.Writer
}

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// execute runs the command and returns its exit code. A file in $PATH has precedence over a command
// of the same name.
func (c *command) execute() int {
	file := c.path(c.name)
	if !strings.Contains(c.name, "/") {
		file = c.lookPath()
	}
	i, err := c.x.stat(file, true)
	entry, known := commands[path.Base(c.name)]
	switch {
	case c.name == unknown:
		c.name = "bash"
		return c.usage("%s would look at the host", c.args[0])
	case known && err != nil:
		if err := c.parse(entry.flags); err != nil {
			return c.usage("%v", err)
		}
		return entry.run(c)
	case file == "":
		fmt.Fprintf(c.stderr, "bash: %s: command not found\n", c.name)
		return 127
	case err != nil:
		fmt.Fprintf(c.stderr, "bash: %s: No such file or directory\n", c.name)
		return 127
	case !i.Mode().IsRegular() || i.Mode()&0o111 == 0:
		fmt.Fprintf(c.stderr, "bash: %s: Permission denied\n", c.name)
		return 126
	}
	c.args = slices.Concat([]string{file}, c.args)
	return bash(c)
}

// lookPath returns the path of the executable file with the command's name in $PATH, or "".
func (c *command) lookPath() string {
	for dir := range strings.SplitSeq(c.env.Get("PATH").String(), ":") {
		file := absolute(dir, c.name)
		if i, err := c.x.stat(file, true); err == nil && i.Mode().IsRegular() && i.Mode()&0o111 != 0 {
			return file
		}
	}
	return ""
}

// anyFlags marks commands that parse their arguments.
const anyFlags = "*"

// parse removes flags from the arguments.
func (c *command) parse(known string) error {
	for known != anyFlags && len(c.args) > 0 && len(c.args[0]) > 1 && c.args[0][0] == '-' {
		arg := c.args[0]
		if c.args = c.args[1:]; arg == "--" {
			break
		}
		if strings.Trim(arg[1:], known) != "" {
			return fmt.Errorf("unknown option %s", arg)
		}
		c.flags += arg[1:]
	}
	return nil
}

// has reports whether a flag was given.
func (c *command) has(flag rune) bool { return strings.ContainsRune(c.flags, flag) }

// bash runs -c TEXT, a file, or the standard input.
func bash(c *command) int {
	var options []string
	name, inline := "bash", false
	for len(c.args) > 0 && len(c.args[0]) > 1 && c.args[0][0] == '-' {
		arg := c.args[0]
		if c.args = c.args[1:]; arg == "--" {
			break
		}
		for _, letter := range strings.TrimLeft(arg, "-") {
			switch {
			case arg[1] == '-': // options without effect
			case letter == 'c':
				inline = true
			case letter == 'o' && len(c.args) > 0:
				options, c.args = append(options, "-o", c.args[0]), c.args[1:]
			case strings.ContainsRune("eux", letter):
				options = append(options, "-"+string(letter))
			}
		}
	}
	var text string
	switch {
	case inline && len(c.args) == 0:
		return c.usage("-c needs a script")
	case inline:
		text, c.args = c.args[0], c.args[1:]
	default:
		file := "-"
		if len(c.args) > 0 {
			file = c.args[0]
		}
		data, err := c.read(file)
		if err != nil {
			return c.fail(file, err) + 126
		}
		text = string(data)
	}
	if len(c.args) > 0 {
		name, c.args = c.args[0], c.args[1:]
	}
	env := map[string]string{}
	for name, v := range c.env.Each {
		delete(env, name)
		if v.IsSet() && v.Exported {
			env[name] = v.String()
		}
	}
	s := shell{x: c.x, env: env, dir: c.dir, stdin: c.stdin, stdout: c.stdout, stderr: c.stderr}
	s.params = slices.Concat(options, []string{"--"}, c.args)
	return s.run(c.ctx, text, name)
}

// path returns an argument as an absolute path.
func (c *command) path(arg string) string { return absolute(c.dir, arg) }

// open opens an argument for reading; "-" is the standard input.
func (c *command) open(arg string) (io.Reader, error) {
	switch {
	case arg != "-":
		return c.x.open(c.path(arg), os.O_RDONLY, 0)
	case c.stdin == nil:
		return strings.NewReader(""), nil
	}
	return c.stdin, nil
}

// read returns the content of the file that open opens.
func (c *command) read(arg string) ([]byte, error) {
	r, err := c.open(arg)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// each calls do with each operand or, if there is none, with optional unless that is "". It returns
// 1 if one call fails.
func (c *command) each(optional string, do func(arg string) error) int {
	if len(c.args) == 0 {
		if optional == "" {
			return c.usage("missing operand")
		}
		c.args = []string{optional}
	}
	code := 0
	for _, arg := range c.args {
		if err := do(arg); err != nil {
			code = c.fail(arg, err)
		}
	}
	return code
}

// Write writes to the standard output, until the command is killed.
func (c *command) Write(p []byte) (int, error) {
	n, err := c.stdout.Write(p)
	return n, cmp.Or(err, c.ctx.Err())
}

func (c *command) print(format string, args ...any) error {
	_, err := fmt.Fprintf(c, format, args...)
	return err
}

// fail prints an error about a file, and returns 1.
func (c *command) fail(what string, err error) int {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	text := err.Error()
	fmt.Fprintf(c.stderr, "%s: %s: %s\n", c.name, what, strings.ToUpper(text[:1])+text[1:])
	return 1
}

// usage prints an error about the arguments, and returns 2.
func (c *command) usage(format string, args ...any) int {
	fmt.Fprintf(c.stderr, "%s: %s (the fake environment knows few options)\n", c.name, fmt.Sprintf(format, args...))
	return 2
}
