package fake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
)

// shell is one bash: the process that it is, and what it starts with.
type shell struct {
	p              *process
	env            map[string]string
	dir            string
	params         []string // options of set, then "--", then $1 and so on
	stdin          *os.File // nil: empty
	stdout, stderr io.Writer
}

// run interprets a script and returns its exit code. The process has not ended then.
func (s *shell) run(text, name string) (code int) {
	defer func() {
		if v := recover(); v != nil {
			fmt.Fprintf(s.stderr, "the interpreter failed: %v\n", v)
			code = 2
		}
	}()
	f, err := parse(text, name)
	if err == nil {
		err = rewrite(f)
	}
	if err != nil {
		fmt.Fprintf(s.stderr, "%s: %v\n", name, err)
		return 2
	}
	r, err := interp.New(
		interp.Env(s.variables()),
		interp.StdIO(s.stdin, s.stdout, s.stderr),
		// interp.Dir would look for the directory on the host.
		func(r *interp.Runner) error { r.Dir = s.dir; return nil },
		interp.Params(s.params...),
		interp.CallHandler(s.call),
		interp.ExecHandlers(func(interp.ExecHandlerFunc) interp.ExecHandlerFunc { return s.exec }),
		interp.OpenHandler(s.open),
		interp.StatHandler(func(ctx context.Context, path string, follow bool) (fs.FileInfo, error) {
			return s.m().stat(s.current(interp.HandlerCtx(ctx)), path, follow)
		}),
		interp.AccessHandler(func(ctx context.Context, path string, mode interp.AccessMode) error {
			return s.m().access(s.current(interp.HandlerCtx(ctx)), path, fs.FileMode(mode))
		}),
		interp.ReadDirHandler2(func(ctx context.Context, path string) ([]fs.DirEntry, error) {
			hc := interp.HandlerCtx(ctx)
			return s.m().readDir(s.current(hc), absolute(hc.Dir, path))
		}),
	)
	if err == nil {
		err = r.Run(s.p.run.ctx, f)
	}
	if status, ok := errors.AsType[interp.ExitStatus](err); ok {
		return int(status)
	}
	if err != nil {
		return 1 // the context has ended, and so has the process
	}
	return 0
}

func (s *shell) m() *machine { return s.p.run.m }

// variables returns what the shell starts with. Without UID and the like, the interpreter would ask the host.
func (s *shell) variables() expand.Environ {
	vars := map[string]string{"HOME": "/", "UID": strconv.Itoa(s.p.uid), "EUID": strconv.Itoa(s.p.uid), "GID": strconv.Itoa(s.p.gid)}
	maps.Copy(vars, s.env)
	maps.Copy(vars, map[string]string{pidVar: strconv.Itoa(s.p.pid), shellVar: strconv.Itoa(s.p.pid), ppidVar: strconv.Itoa(s.p.ppid)})
	return variables{vars, s.env}
}

// variables are those of all and exported.
type variables struct{ all, exported map[string]string }

func (v variables) Get(name string) expand.Variable {
	value, ok := v.all[name]
	_, exported := v.exported[name]
	return expand.Variable{Set: ok, Exported: exported, Kind: expand.String, Str: value}
}

func (v variables) Each(do func(string, expand.Variable) bool) {
	for name := range v.all {
		if !do(name, v.Get(name)) {
			return
		}
	}
}

// current returns the process for which the interpreter calls: the shell or one of its jobs.
func (s *shell) current(hc interp.HandlerContext) *process {
	pid, _ := strconv.Atoi(hc.Env.Get(pidVar).String())
	if pid == s.p.pid {
		return s.p
	}
	s.m().mu.Lock()
	defer s.m().mu.Unlock()
	if p := s.m().procs[pid]; p != nil && p.run == s.p.run {
		return p
	}
	return s.p
}

// absolute returns path as seen from dir. It does not clean it: "link/.." is not where link is.
func absolute(dir, path string) string {
	if strings.HasPrefix(path, "/") || path == "" {
		return path
	}
	return strings.TrimSuffix(dir, "/") + "/" + path
}

func (s *shell) open(ctx context.Context, path string, flag int, perm os.FileMode) (io.ReadWriteCloser, error) {
	hc := interp.HandlerCtx(ctx)
	p, path := s.current(hc), absolute(hc.Dir, path)
	reads := flag&accessMode == os.O_RDONLY
	switch in, ok := hc.Stdin.(*os.File); {
	case path == "/dev/null" && reads: // an input that is a file needs no pipe
		return os.Open(os.DevNull)
	case path == "/dev/stdin" && reads && ok:
		return piped(in)
	case path == "/dev/stdout":
		return stream{Writer: hc.Stdout}, nil
	case path == "/dev/stderr":
		return stream{Writer: hc.Stderr}, nil
	}
	f, err := s.m().open(p, path, flag, perm)
	if err != nil {
		return nil, err
	}
	if !reads {
		return f, nil
	}
	return piped(f)
}

// piped makes a reader into an input for the interpreter, which would not stop reading another one when it is closed.
func piped(from io.Reader) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, &fs.PathError{Op: "pipe", Path: "", Err: syscall.EMFILE}
	}
	go func() {
		_, _ = io.Copy(w, from)
		_ = w.Close()
	}()
	return r, nil
}

// stream is an open file that only reads or only writes, and that nobody closes.
type stream struct {
	io.Reader
	io.Writer
}

func (stream) Close() error { return nil }

// builtinPrefix marks commands that stand for builtins.
const builtinPrefix = "__fake_"

// call sees every simple command before it runs, also builtins. It ends what is dead, and replaces builtins that would ask the
// host or do not exist.
func (s *shell) call(ctx context.Context, args []string) ([]string, error) {
	hc := interp.HandlerCtx(ctx)
	p := s.current(hc)
	if dead, code := p.dead(); dead && args[0] != exitCommand {
		return []string{"exit", strconv.Itoa(code)}, nil
	}
	return s.replace(p, hc.Dir, args), nil
}

func (s *shell) replace(p *process, dir string, args []string) []string {
	switch args[0] {
	case "kill":
		return append([]string{builtinPrefix + args[0]}, args[1:]...)
	case "command", "builtin":
		if len(args) > 2 && args[1] == "-v" {
			return append([]string{"which"}, args[2:]...)
		}
		if len(args) > 1 {
			return append([]string{"command"}, s.replace(p, dir, args[1:])...)
		}
	case "pwd": // which would look for the directory on the host
		if slices.Contains(args, "-P") {
			_ = s.m().find(p, dir, true, func(at place) error { dir = cmp.Or(at.path, "/"); return nil }) // else as it is
		}
		return []string{"echo", dir}
	case "umask", "ulimit", "disown":
		return []string{":"}
	case "trap":
		return p.trap(args)
	case "wait":
		return s.m().jobNames(args)
	case "eval":
		return []string{"eval", rewriteText(strings.Join(args[1:], " "))}
	case "source", ".": // without arguments
		if data, err := s.m().readFile(p, absolute(dir, cmp.Or(strings.Join(args[1:], ""), "."))); err == nil {
			return []string{"eval", rewriteText(string(data))}
		}
	}
	return args
}

// trap keeps EXIT and ERR, which the interpreter knows. An ignored signal makes the process deaf; no other handler is called.
func (p *process) trap(args []string) []string {
	rest := slices.DeleteFunc(slices.Clone(args[1:]), func(arg string) bool { return arg == "--" })
	if len(rest) < 2 {
		return []string{":"}
	}
	keep := []string{"trap", "--", rest[0]}
	for _, name := range rest[1:] {
		if name == "EXIT" || name == "0" || name == "ERR" {
			keep = append(keep, strings.Replace(name, "0", "EXIT", 1))
			continue
		}
		p.run.m.mu.Lock()
		p.deaf = rest[0] != "-"
		p.run.m.mu.Unlock()
	}
	if len(keep) == 3 {
		return []string{":"}
	}
	return keep
}

// jobNames replaces process ids by the interpreter's names of jobs.
func (m *machine) jobNames(args []string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	args = slices.Clone(args)
	for i, arg := range args {
		if pid, err := strconv.Atoi(arg); err == nil && m.procs[pid] != nil && m.procs[pid].job != "" {
			args[i] = m.procs[pid].job
		}
	}
	return args
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
		delete(c.env, name)
		if v.IsSet() && v.Exported {
			c.env[name] = v.String()
		}
	}
	return s.status(ctx, hc, c.execute())
}

// noFork is the result of a command for which there is no process.
const noFork = -1

// status returns an exit code as the interpreter wants it.
func (s *shell) status(ctx context.Context, hc interp.HandlerContext, code int) error {
	switch code {
	case 0:
		return nil
	case noFork:
		fmt.Fprintln(hc.Stderr, "bash: fork: Resource temporarily unavailable")
		return hc.Builtin(ctx, []string{"exit", "254"})
	}
	return interp.ExitStatus(code)
}

// jobCommand runs the commands of forkTemplate.
func (s *shell) jobCommand(ctx context.Context, hc interp.HandlerContext, p *process, args []string) error {
	switch args[0] {
	case forkCommand:
		job, err := p.run.start(p)
		if err != nil {
			return s.status(ctx, hc, forkCode(err))
		}
		s.m().mu.Lock()
		if (hc.Stdout == io.Writer(p.run.stdout) || hc.Stderr == io.Writer(p.run.stderr)) && args[1] == "true" && !job.ended {
			job.holds = true
			p.run.holding++
		}
		job.simple = args[2] == "true"
		s.m().mu.Unlock()
		return hc.Builtin(ctx, []string{"eval", fmt.Sprintf("%s=%d", jobVar, job.pid)})
	case bornCommand:
		pid, _ := strconv.Atoi(hc.Env.Get(jobVar).String())
		s.m().mu.Lock()
		defer s.m().mu.Unlock()
		if job := s.m().procs[pid]; job != nil && len(args) > 1 {
			job.job = args[1]
		}
		return nil
	}
	code, _ := strconv.Atoi(args[1])
	return s.status(ctx, hc, p.exit(code))
}

// forkCode returns the result of a process that could not start.
func forkCode(err error) int {
	if errors.Is(err, syscall.EAGAIN) {
		return noFork
	}
	return 1
}
