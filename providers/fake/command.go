package fake

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"mvdan.cc/sh/v3/interp"

	"github.com/org/rollout-action/internal/environment"
)

// command is one call of a command by a shell or by another command.
type command struct {
	p              *process
	name           string
	args           []string // without flags
	flags          map[byte]string
	env            map[string]string
	dir            string
	stdin          *os.File // nil: empty
	stdout, stderr io.Writer
}

// program is the content of files that stand for commands.
const program = "#!fake\n"

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// execute runs the command as the process that calls it, and returns its exit code.
func (c *command) execute() int {
	path := absolute(c.dir, c.name)
	if !strings.Contains(c.name, "/") {
		if path = c.lookPath(); path == "" && commands[c.name].run != nil {
			return c.builtIn(c.name)
		}
	}
	data, err := c.m().readFile(c.p, path)
	name := base(path)
	switch {
	case path == "" || errors.Is(err, fs.ErrNotExist) && commands[name].run == nil:
		fmt.Fprintf(c.stderr, "bash: %s: %s\n", c.name, map[bool]string{true: "command not found", false: "No such file or directory"}[path == ""])
		return 127
	case errors.Is(err, fs.ErrNotExist) || string(data) == program:
		return c.builtIn(name)
	case err != nil || c.m().access(c.p, path, 0o1) != nil:
		fmt.Fprintf(c.stderr, "bash: %s: Permission denied\n", c.name)
		return 126
	}
	return c.shell(nil, string(data), path, c.args)
}

// lookPath returns the executable file with the command's name in $PATH, or "".
func (c *command) lookPath() string {
	path := c.env["PATH"]
	if path == "" {
		path = defaultPath
	}
	for dir := range strings.SplitSeq(path, ":") {
		file := absolute(dir, c.name)
		if i, err := c.m().stat(c.p, file, true); err == nil && i.mode.IsRegular() && i.mode&0o111 != 0 {
			return file
		}
	}
	return ""
}

// builtIn runs a command of the table.
func (c *command) builtIn(name string) int {
	entry := commands[name]
	if entry.flags != anyFlags {
		if err := c.parse(entry.flags); err != nil {
			return c.usage("%v", err)
		}
	}
	return entry.run(c)
}

// anyFlags marks commands that parse their arguments.
const anyFlags = "*"

// parse takes flags out of the arguments as getopt does: letters in spec are flags; with a colon they have a value.
func (c *command) parse(spec string) error {
	c.flags = map[byte]string{}
	var rest []string
	for i := 0; i < len(c.args); i++ {
		arg := c.args[i]
		if arg == "--" {
			rest = append(rest, c.args[i+1:]...)
			break
		}
		if len(arg) < 2 || arg[0] != '-' {
			rest = append(rest, arg)
			continue
		}
		for j := 1; j < len(arg); j++ {
			at := strings.IndexByte(spec, arg[j])
			if at < 0 || arg[j] == ':' {
				return fmt.Errorf("unknown option %s", arg)
			}
			c.flags[arg[j]] = "yes"
			if !strings.HasPrefix(spec[at+1:], ":") {
				continue
			}
			value := arg[j+1:]
			if value == "" {
				if i++; i == len(c.args) {
					return fmt.Errorf("option %s needs a value", arg)
				}
				value = c.args[i]
			}
			c.flags[arg[j]] = value
			break
		}
	}
	c.args = rest
	return nil
}

// shell runs a script as a child process, or as the process itself if that is a job of one command.
func (c *command) shell(options []string, text, name string, params []string) int {
	p := c.p
	if p.simple {
		p.simple = false
	} else {
		child, err := p.run.start(p)
		if err != nil {
			return forkCode(err)
		}
		p = child
	}
	s := shell{p: p, env: c.env, dir: c.dir, stdin: c.stdin, stdout: c.stdout, stderr: c.stderr, params: slices.Concat(options, []string{"--"}, params)}
	if p == c.p {
		return s.run(text, name)
	}
	go func() { p.exit(s.run(text, name)) }()
	<-p.done // at once when it is killed, even if what it runs does not notice
	_, code := p.dead()
	c.m().mu.Lock()
	defer c.m().mu.Unlock()
	delete(c.m().procs, p.pid)
	return code
}

// bash runs -c TEXT, a file, or the standard input.
func bash(c *command) int {
	var options []string
	name, inline := "bash", false
	for len(c.args) > 0 && len(c.args[0]) > 1 && c.args[0][0] == '-' {
		arg := c.args[0]
		c.args = c.args[1:]
		if arg == "--" {
			break
		}
		for _, letter := range strings.TrimLeft(arg, "-") {
			switch {
			case letter == 'c' && arg[1] != '-':
				inline = true
			case letter == 'o' && arg[1] != '-' && len(c.args) > 0:
				options, c.args = append(options, "-o", c.args[0]), c.args[1:]
			case strings.ContainsRune("eux", letter) && arg[1] != '-':
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
		if text == environment.Idle()[2] { // which has a process substitution
			c.m().handOver()
			text = "while :; do sleep infinity & wait $!; done"
		}
		if len(c.args) > 0 {
			name, c.args = c.args[0], c.args[1:]
		}
	default:
		in := c.input()
		if len(c.args) > 0 {
			name, c.args = c.args[0], c.args[1:]
			var err error
			if in, err = c.open(name); err != nil {
				c.fail(name, err)
				return 127
			}
		} else {
			c.stdin = nil
		}
		data, err := io.ReadAll(in)
		if err != nil {
			return c.fail(name, err)
		}
		text = string(data)
	}
	return c.shell(options, text, name, c.args)
}

func (c *command) m() *machine { return c.p.run.m }

// path returns an argument as an absolute path.
func (c *command) path(arg string) string { return absolute(c.dir, arg) }

func (c *command) input() io.Reader {
	if c.stdin == nil {
		return strings.NewReader("")
	}
	return c.stdin
}

// open opens an argument for reading; "-" is the standard input.
func (c *command) open(arg string) (io.Reader, error) {
	if arg == "-" || arg == "/dev/stdin" {
		return c.input(), nil
	}
	f, err := c.m().open(c.p, c.path(arg), os.O_RDONLY, 0)
	if err == nil && f.node.mode.IsDir() {
		return nil, syscall.EISDIR
	}
	return f, err
}

// each calls do with each operand, or with "" if there is none and optional is set. It returns 1 if one fails.
func (c *command) each(optional string, do func(arg string) error) int {
	if len(c.args) == 0 {
		if optional == "" {
			return c.usage("missing operand")
		}
		c.args = []string{optional}
	}
	code := 0
	for _, arg := range c.args {
		if err := do(arg); errors.Is(err, errOutput) {
			return 128 + int(syscall.SIGPIPE)
		} else if err != nil {
			code = c.fail(arg, err)
		}
	}
	return code
}

// files is each for files that are read, by default the standard input.
func (c *command) files(do func(name string, r io.Reader) error) int {
	return c.each("-", func(arg string) error {
		r, err := c.open(arg)
		if err != nil {
			return err
		}
		return do(arg, r)
	})
}

// lines calls do with each line of the files, without its end.
func (c *command) lines(do func(line string) error) int {
	return c.files(func(_ string, r io.Reader) error {
		for in := bufio.NewReader(r); ; {
			line, err := in.ReadString('\n')
			if line != "" {
				if err := do(strings.TrimSuffix(line, "\n")); err != nil {
					return err
				}
			}
			if err != nil {
				return eofIsNone(err)
			}
		}
	})
}

func eofIsNone(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// errOutput ends a command whose output nobody reads, or that was killed.
var errOutput = errors.New("nobody reads the output")

// Write writes to the standard output.
func (c *command) Write(p []byte) (int, error) {
	if dead, _ := c.p.dead(); dead {
		return 0, errOutput
	}
	n, err := c.stdout.Write(p)
	if err != nil {
		return n, errOutput
	}
	return n, nil
}

// buffers are for copying: most commands live too short for one of their own.
var buffers = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

// copy writes what it reads.
func (c *command) copy(r io.Reader) error {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	_, err := io.CopyBuffer(c, struct{ io.Reader }{r}, *buf)
	return err
}

func (c *command) print(format string, args ...any) error {
	_, err := fmt.Fprintf(c, format, args...)
	return err
}

// result prints unless there is an error.
func (c *command) result(err error, format string, args ...any) error {
	if err != nil {
		return err
	}
	return c.print(format, args...)
}

// fail prints what is wrong with a file, and returns 1.
func (c *command) fail(what string, err error) int {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	text := err.Error()
	fmt.Fprintf(c.stderr, "%s: %s: %s\n", strings.TrimPrefix(c.name, builtinPrefix), what, strings.ToUpper(text[:1])+text[1:])
	return 1
}

// usage prints what is wrong with the arguments, and returns 2.
func (c *command) usage(format string, args ...any) int {
	fmt.Fprintf(c.stderr, "%s: %s (the fake environment knows few options)\n", c.name, fmt.Sprintf(format, args...))
	return 2
}

// which prints where commands are.
func which(c *command) int {
	code := 0
	for _, c.name = range c.args {
		path := c.lookPath()
		switch {
		case interp.IsBuiltin(c.name):
			path = c.name
		case path == "" && commands[c.name].run != nil:
			path = "/usr/bin/" + c.name
		case path == "":
			code = 1
			continue
		}
		_ = c.print("%s\n", path)
	}
	return code
}
