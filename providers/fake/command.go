package fake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"mvdan.cc/sh/v3/interp"
)

// command is one call of a command by a shell or by another command.
type command struct {
	p              *process
	name           string
	args           []string
	env            map[string]string
	dir            string
	stdin          *os.File // nil: empty
	stdout, stderr io.Writer
}

// commands are what there is besides bash's builtins. Each returns its exit code. It is filled by
// init, for some run others.
var commands map[string]func(*command) int

func init() {
	commands = map[string]func(*command) int{}
	for _, part := range []map[string]func(*command) int{
		fileCommands, listCommands, textCommands, lineCommands, matchCommands, processCommands, infoCommands, netCommands,
	} {
		maps.Copy(commands, part)
	}
}

// exec runs what is neither a function nor a builtin.
func (s *shell) exec(ctx context.Context, args []string) error {
	hc := interp.HandlerCtx(ctx)
	p := s.current(hc)
	switch args[0] {
	case forkCommand, bornCommand, exitCommand:
		return s.jobCommand(ctx, hc, p, args)
	}
	c := &command{p: p, name: args[0], args: args[1:], env: map[string]string{}, dir: hc.Dir, stdout: hc.Stdout, stderr: hc.Stderr}
	c.stdin, _ = hc.Stdin.(*os.File)
	for name, v := range hc.Env.Each {
		switch {
		case !v.IsSet():
			delete(c.env, name)
		case v.Exported:
			c.env[name] = v.String()
		}
	}
	if p.simple || strings.HasPrefix(c.name, builtinPrefix) {
		p.simple = false // it is the first command only that becomes the process
		return status(c.execute())
	}
	code, err := c.spawn()
	if errors.Is(err, syscall.EAGAIN) {
		return noFork(ctx, hc)
	}
	return status(code)
}

// spawn executes the command as a process of its own, and waits for its end.
func (c *command) spawn() (int, error) {
	child, err := c.p.run.start(c.p, strings.Join(append([]string{c.name}, c.args...), " "))
	if err != nil {
		return 1, err
	}
	c.p = child
	if !slices.Contains(runsOthers, c.name) {
		code := child.exit(c.execute())
		child.forget()
		return code, nil
	}
	// Killed, it must end at once, even if what it runs does not.
	go func() { child.exit(c.execute()) }()
	<-child.done
	_, code := child.dead()
	child.forget()
	return code, nil
}

// runsOthers are the commands that run others within themselves.
var runsOthers = []string{"bash", "sh", "env", "nohup", "setsid", "timeout", "xargs"}

// execute runs the command as the process that it is called from.
func (c *command) execute() int {
	if strings.Contains(c.name, "/") {
		return c.executeFile(absolute(c.dir, c.name))
	}
	if path := c.p.run.m.lookPath(c.p, c.env["PATH"], c.name); path != "" {
		return c.executeFile(path)
	}
	if run := commands[c.name]; run != nil {
		return run(c)
	}
	fmt.Fprintf(c.stderr, "bash: %s: command not found (the fake environment has few)\n", c.name)
	return 127
}

// programFolders are where the built-in commands seem to be.
var programFolders = []string{"/bin/", "/usr/bin/", "/usr/local/bin/"}

// builtIn is the name of the command that a path seems to be, or "".
func builtIn(path string) string {
	for _, dir := range programFolders {
		if name, ok := strings.CutPrefix(path, dir); ok && commands[name] != nil {
			return name
		}
	}
	return ""
}

// executeFile runs the file at path: a script, or what seems to be a program.
func (c *command) executeFile(path string) int {
	m := c.p.run.m
	data, err := m.readFile(c.p, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if name := builtIn(path); name != "" {
			return commands[name](c)
		}
		fmt.Fprintf(c.stderr, "bash: %s: No such file or directory\n", c.name)
		return 127
	case err != nil || m.access(c.p, path, 0o5) != nil:
		fmt.Fprintf(c.stderr, "bash: %s: Permission denied\n", c.name)
		return 126
	case string(data) == program:
		return commands[base(path)](c)
	}
	line, _, _ := strings.Cut(string(data), "\n")
	if interpreter, ok := strings.CutPrefix(line, "#!"); ok {
		words := append([]string{""}, strings.Fields(interpreter)...)
		if last := base(words[len(words)-1]); last != "bash" && last != "sh" {
			fmt.Fprintf(c.stderr, "bash: %s: %s is not there (the fake environment runs bash only)\n", c.name, line)
			return 126
		}
	}
	return c.bash(nil, string(data), path, c.args)
}

// program is the content of files that stand for built-in commands.
const program = "#!fake\n"

// bash runs a script within the process of the command.
func (c *command) bash(options []string, text, name string, params []string) int {
	s := shell{p: c.p, env: c.env, dir: c.dir, stdin: c.stdin, stdout: c.stdout, stderr: c.stderr,
		params: slices.Concat(options, []string{"--"}, params)}
	return s.run(text, name)
}

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// lookPath finds an executable file in path (empty: the default one), or "".
func (m *machine) lookPath(p *process, path, name string) string {
	if path == "" {
		path = defaultPath
	}
	for dir := range strings.SplitSeq(path, ":") {
		file := absolute(dir, name)
		if i, err := m.stat(p, file, true); err == nil && i.mode.IsRegular() && i.mode&0o111 != 0 {
			return file
		}
	}
	return ""
}

// path is an argument as an absolute path.
func (c *command) path(arg string) string { return absolute(c.dir, arg) }

func (c *command) m() *machine { return c.p.run.m }

// input is what a command reads if it is not told otherwise.
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

// each calls do with every file that is named, or with the standard input, and is 1 if one failed.
func (c *command) each(names []string, do func(name string, r io.Reader) error) int {
	if len(names) == 0 {
		names = []string{"-"}
	}
	code := 0
	for _, name := range names {
		r, err := c.open(name)
		if err == nil {
			err = do(name, r)
		}
		if errors.Is(err, errStdout) {
			return 128 + int(syscall.SIGPIPE)
		}
		if err != nil {
			code = c.fail(name, err)
		}
	}
	return code
}

// errStdout is the end of a command that nobody listens to any more.
var errStdout = errors.New("nobody reads the output")

// buffers are for reading; most commands live too short to have their own.
var buffers = sync.Pool{New: func() any { b := make([]byte, 64<<10); return &b }}

// copy hands on what it reads.
func (c *command) copy(r io.Reader) error {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	for {
		n, err := r.Read(*buf)
		if n > 0 {
			if dead, _ := c.p.dead(); dead {
				return errStdout
			}
			if _, err := c.stdout.Write((*buf)[:n]); err != nil {
				return errStdout
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// print writes a line, and tells whether anybody wants more.
func (c *command) print(format string, args ...any) bool {
	_, err := fmt.Fprintf(c.stdout, format, args...)
	dead, _ := c.p.dead()
	return err == nil && !dead
}

// fail says what went wrong with a file, and is 1.
func (c *command) fail(what string, err error) int {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	text := err.Error()
	fmt.Fprintf(c.stderr, "%s: %s: %s\n", c.name, what, strings.ToUpper(text[:1])+text[1:])
	return 1
}

// usage complains about arguments, and is 2.
func (c *command) usage(format string, args ...any) int {
	fmt.Fprintf(c.stderr, "%s: %s (the fake environment knows few options)\n", c.name, fmt.Sprintf(format, args...))
	return 2
}

// options parses flags as getopt does: letters in spec are flags, with a colon they have a value. Long
// names are given as "name=letter". The operands are left in c.args.
func (c *command) options(spec string, long ...string) (map[byte]string, error) {
	found := map[byte]string{}
	var rest []string
	for i := 0; i < len(c.args); i++ {
		arg := c.args[i]
		switch {
		case arg == "--":
			rest = append(rest, c.args[i+1:]...)
			i = len(c.args)
		case len(arg) < 2 || arg[0] != '-':
			rest = append(rest, arg)
		case strings.HasPrefix(arg, "--"):
			name, value, _ := strings.Cut(arg[2:], "=")
			letter := slices.IndexFunc(long, func(l string) bool { return strings.HasPrefix(l, name+"=") })
			if letter < 0 {
				return nil, fmt.Errorf("unknown option %s", arg)
			}
			found[long[letter][len(name)+1]] = value
		default:
			for j := 1; j < len(arg); j++ {
				at := strings.IndexByte(spec, arg[j])
				if at < 0 || arg[j] == ':' {
					return nil, fmt.Errorf("unknown option -%c", arg[j])
				}
				if at+1 == len(spec) || spec[at+1] != ':' {
					found[arg[j]] = "yes"
					continue
				}
				value := arg[j+1:]
				if value == "" {
					if i++; i == len(c.args) {
						return nil, fmt.Errorf("option -%c needs a value", arg[j])
					}
					value = c.args[i]
				}
				found[arg[j]] = value
				break
			}
		}
	}
	c.args = rest
	return found, nil
}
