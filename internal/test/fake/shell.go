package fake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"
)

// shell is the initial state of a bash.
type shell struct {
	x              *execution
	env            map[string]string
	dir            string
	params         []string // options of set, then "--", then $1 and so on
	stdin          *os.File // nil: empty
	stdout, stderr io.Writer
}

// run interprets a script and returns its exit code. Background jobs continue after it has
// returned, until the execution is killed.
func (s shell) run(ctx context.Context, text, name string) int {
	f, err := parse(text, name)
	if err != nil {
		fmt.Fprintf(s.stderr, "%s: %v\n", name, err)
		return 2
	}
	vars := []string{"HOME=/root", "UID=0", "EUID=0", "GID=0"} // without these, the interpreter would ask the host
	for name, value := range s.env {
		vars = append(vars, name+"="+value)
	}
	r, err := interp.New(
		interp.Env(expand.ListEnviron(vars...)),
		interp.StdIO(s.stdin, s.stdout, s.stderr),
		// interp.Dir would look for the directory on the host.
		func(r *interp.Runner) error { r.Dir = s.dir; return nil },
		interp.Params(s.params...),
		interp.CallHandler(func(_ context.Context, args []string) ([]string, error) { return withoutHost(args), nil }),
		interp.ExecHandlers(func(interp.ExecHandlerFunc) interp.ExecHandlerFunc { return s.x.exec }),
		interp.OpenHandler(s.x.openFor),
		interp.StatHandler(func(_ context.Context, path string, follow bool) (fs.FileInfo, error) { return s.x.stat(path, follow) }),
		interp.AccessHandler(func(_ context.Context, path string, mode interp.AccessMode) error {
			i, err := s.x.stat(path, true)
			if err == nil && mode == interp.AccessExec && i.Mode()&0o111 == 0 {
				return syscall.EACCES
			}
			return err
		}),
		interp.ReadDirHandler2(func(ctx context.Context, path string) ([]fs.DirEntry, error) {
			return s.x.readDir(absolute(interp.HandlerCtx(ctx).Dir, path))
		}),
	)
	if err == nil {
		err = r.Run(ctx, f)
	}
	if status, ok := errors.AsType[interp.ExitStatus](err); ok {
		return int(status)
	}
	if err != nil {
		return 1 // the execution was killed
	}
	return 0
}

// Creating a parser takes longer than parsing a script.
var parsers = sync.Pool{New: func() any { return syntax.NewParser() }}

// parse parses a script, whose $0 is name. It refuses process substitutions, for which the
// interpreter would create a named pipe on the host.
func parse(text, name string) (*syntax.File, error) {
	p := parsers.Get().(*syntax.Parser)
	defer parsers.Put(p)
	f, err := p.Parse(strings.NewReader(text), name)
	syntax.Walk(f, func(n syntax.Node) bool {
		if _, is := n.(*syntax.ProcSubst); is {
			err = errors.New("the fake environment does not know process substitutions")
		}
		return err == nil
	})
	return f, err
}

// withoutHost replaces calls of builtins with which the interpreter would access the host.
func withoutHost(args []string) []string {
	call := strings.Join(args[:min(2, len(args))], " ")
	if args[0] == "type" || slices.Contains([]string{"command -v", "pwd -P"}, call) {
		return []string{unknown, call}
	}
	return args
}

// unknown is a command that fails with the message that another one does not exist.
const unknown = "__fake_unknown"

// absolute returns path relative to dir as an absolute path. It does not clean it: "link/.." is not
// the directory of link.
func absolute(dir, path string) string {
	if strings.HasPrefix(path, "/") || path == "" {
		return path
	}
	return strings.TrimSuffix(dir, "/") + "/" + path
}

// openFor opens a file for the interpreter.
func (x *execution) openFor(ctx context.Context, path string, flag int, perm os.FileMode) (io.ReadWriteCloser, error) {
	f, err := x.open(absolute(interp.HandlerCtx(ctx).Dir, path), flag, perm)
	if _, is := f.(*file); !is || err != nil || flag&(os.O_WRONLY|os.O_RDWR) != 0 {
		return f, err
	}
	return piped(f)
}

// piped converts a reader into an input for the interpreter, which would not stop reading another
// kind of reader when it is closed.
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

// exec runs a command that is neither a function nor a builtin.
func (x *execution) exec(ctx context.Context, args []string) error {
	hc := interp.HandlerCtx(ctx)
	c := &command{x: x, ctx: ctx, name: args[0], args: args[1:], env: hc.Env, dir: hc.Dir, stdout: hc.Stdout, stderr: hc.Stderr}
	c.stdin, _ = hc.Stdin.(*os.File)
	if code := c.execute(); code != 0 {
		return interp.ExitStatus(code)
	}
	return nil
}
