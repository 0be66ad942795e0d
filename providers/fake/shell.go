package fake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"
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

// run interprets a script and returns its exit code. The process has not ended yet then.
func (s *shell) run(text, name string) int {
	f, err := parse(text, name)
	if err != nil {
		fmt.Fprintf(s.stderr, "%s: %v\n", name, err)
		return 2
	}
	r, err := interp.New(
		interp.Env(s.variables()),
		interp.StdIO(s.stdin, s.stdout, s.stderr),
		// interp.Dir would look for the folder on the host.
		func(r *interp.Runner) error { r.Dir = s.dir; return nil },
		interp.Params(s.params...),
		interp.CallHandler(s.call),
		interp.ExecHandlers(func(interp.ExecHandlerFunc) interp.ExecHandlerFunc { return s.exec }),
		interp.OpenHandler(s.open),
		interp.StatHandler(s.stat),
		interp.AccessHandler(s.access),
		interp.ReadDirHandler2(s.readDir),
	)
	if err != nil {
		fmt.Fprintf(s.stderr, "%s: %v\n", name, err)
		return 2
	}
	return s.interpret(r, f)
}

func (s *shell) interpret(r *interp.Runner, f *syntax.File) (code int) {
	defer func() {
		if v := recover(); v != nil {
			fmt.Fprintf(s.stderr, "the fake's shell gave up: %v\n", v)
			code = 2
		}
	}()
	err := r.Run(s.p.run.ctx, f)
	var status interp.ExitStatus
	switch {
	case err == nil:
		return 0
	case errors.As(err, &status):
		return int(status)
	}
	return 1 // its context has ended, and so has the process
}

// variables are what a shell starts with.
type variables map[string]expand.Variable

func (v variables) Get(name string) expand.Variable { return v[name] }

func (v variables) Each(do func(string, expand.Variable) bool) {
	for name, value := range v {
		if !do(name, value) {
			return
		}
	}
}

func (s *shell) variables() variables {
	v := make(variables, len(s.env)+8)
	text := func(name, value string, exported bool) {
		v[name] = expand.Variable{Set: true, Exported: exported, Kind: expand.String, Str: value}
	}
	// Without these the interpreter would ask the host.
	text("HOME", "/", false)
	text("UID", strconv.Itoa(s.p.uid), false)
	text("EUID", strconv.Itoa(s.p.uid), false)
	text("GID", strconv.Itoa(s.p.gid), false)
	for name, value := range s.env {
		text(name, value, true)
	}
	text(pidVar, strconv.Itoa(s.p.pid), false)
	text(shellVar, strconv.Itoa(s.p.pid), false)
	text(ppidVar, strconv.Itoa(s.p.ppid), false)
	return v
}

// current is the process on whose behalf the interpreter calls: the shell or one of its jobs.
func (s *shell) current(hc interp.HandlerContext) *process {
	pid, err := strconv.Atoi(hc.Env.Get(pidVar).String())
	if err == nil && pid != s.p.pid {
		m := s.p.run.m
		m.mu.Lock()
		defer m.mu.Unlock()
		if p := m.procs[pid]; p != nil && p.run == s.p.run {
			return p
		}
	}
	return s.p
}

// absolute is path seen from dir. It is not cleaned: "link/.." is not where link is.
func absolute(dir, path string) string {
	if strings.HasPrefix(path, "/") || path == "" {
		return path
	}
	return strings.TrimSuffix(dir, "/") + "/" + path
}

func (s *shell) open(ctx context.Context, path string, flag int, perm os.FileMode) (io.ReadWriteCloser, error) {
	hc := interp.HandlerCtx(ctx)
	p, path := s.current(hc), absolute(hc.Dir, path)
	if text, ok := s.p.run.source(path); ok {
		return stream{Reader: strings.NewReader(text)}, nil
	}
	reads := flag&accessMode == os.O_RDONLY
	switch path {
	case "/dev/null":
		if reads {
			return os.Open(os.DevNull)
		}
		return stream{Writer: io.Discard}, nil
	case "/dev/stdout":
		return stream{Writer: hc.Stdout}, nil
	case "/dev/stderr":
		return stream{Writer: hc.Stderr}, nil
	case "/dev/stdin":
		if in, ok := hc.Stdin.(*os.File); ok && reads {
			return piped(in)
		}
	}
	f, err := p.run.m.open(p, path, flag, perm)
	if err != nil {
		return nil, err
	}
	if !reads {
		return f, nil
	}
	return piped(f)
}

// piped makes a reader into what the interpreter accepts as an input, without its having to do
// so itself: it would not stop reading when the input is closed.
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

// stream is an open file that is only a reader or a writer, and that nobody closes.
type stream struct {
	io.Reader
	io.Writer
}

func (stream) Close() error { return nil }

func (s *shell) stat(ctx context.Context, path string, follow bool) (fs.FileInfo, error) {
	p := s.current(interp.HandlerCtx(ctx))
	return p.run.m.stat(p, path, follow)
}

func (s *shell) access(ctx context.Context, path string, mode interp.AccessMode) error {
	p := s.current(interp.HandlerCtx(ctx))
	return p.run.m.access(p, path, fs.FileMode(mode))
}

func (s *shell) readDir(ctx context.Context, path string) ([]fs.DirEntry, error) {
	hc := interp.HandlerCtx(ctx)
	p := s.current(hc)
	list, err := p.run.m.readDir(p, absolute(hc.Dir, path))
	entries := make([]fs.DirEntry, len(list))
	for i, e := range list {
		entries[i] = e
	}
	return entries, err
}
