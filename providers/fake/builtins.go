package fake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
	"mvdan.cc/sh/v3/interp"
)

// call sees every simple command before it runs, builtins included. It replaces those that would ask
// the host or do not exist, and ends what is dead.
func (s *shell) call(ctx context.Context, args []string) ([]string, error) {
	hc := interp.HandlerCtx(ctx)
	p := s.current(hc)
	if dead, code := p.dead(); dead && !p.isLast(args) {
		return []string{"exit", strconv.Itoa(code)}, nil
	}
	if (args[0] == "echo" || args[0] == "printf") && brokenPipe(hc.Stdout) {
		return []string{"exit", strconv.Itoa(128 + int(syscall.SIGPIPE))}, nil
	}
	return s.replace(p, hc.Dir, args), nil
}

// replace is what runs in the stead of a simple command.
func (s *shell) replace(p *process, dir string, args []string) []string {
	switch args[0] {
	case "kill", "type", "umask", "ulimit":
		return append([]string{builtinPrefix + args[0]}, args[1:]...)
	case "command", "builtin":
		if len(args) > 2 && (args[1] == "-v" || args[1] == "-V") {
			return append([]string{builtinPrefix + "which"}, args[2:]...)
		}
		if len(args) > 1 && !strings.HasPrefix(args[1], "-") {
			return append([]string{"command"}, s.replace(p, dir, args[1:])...)
		}
	case "pwd":
		if slices.Contains(args[1:], "-P") {
			return []string{"realpath", "."}
		}
	case "jobs", "bg", "disown", "suspend":
		return []string{":"}
	case "trap":
		return p.trap(args)
	case "wait":
		return p.run.m.jobNames(args)
	case "eval":
		return []string{"eval", rewriteText(strings.Join(args[1:], " "))}
	case "source", ".":
		if len(args) > 1 {
			return s.sourceArgs(p, dir, args)
		}
	case "test", "[":
		if slices.Contains(args, "-O") || slices.Contains(args, "-G") {
			return []string{"false"}
		}
	}
	return args
}

// builtinPrefix marks commands that stand for builtins.
const builtinPrefix = "__fake_"

// isLast tells whether args is the end of a job, which must be noted although the job is dead.
func (p *process) isLast(args []string) bool { return args[0] == exitCommand }

// brokenPipe tells whether w is a pipe that nobody reads any more. The interpreter ignores errors of
// writing, and would go on for ever where the kernel would send SIGPIPE.
func brokenPipe(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return true // closed
	}
	broken := false
	err = conn.Control(func(fd uintptr) {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		if n, err := unix.Poll(poll, 0); err == nil && n > 0 {
			broken = poll[0].Revents&unix.POLLERR != 0
		}
	})
	return broken || err != nil
}

// trap keeps EXIT and ERR, which the interpreter knows. An ignored signal makes the process deaf; other
// handlers are never called, for there is nobody who would send these signals.
func (p *process) trap(args []string) []string {
	rest := args[1:]
	if len(rest) > 0 && rest[0] == "--" {
		rest = rest[1:]
	}
	if len(rest) < 2 {
		return []string{":"}
	}
	keep := []string{"trap", "--", rest[0]}
	if rest[0] != "-" && rest[0] != "" {
		keep[2] = rewriteText(rest[0])
	}
	for _, name := range rest[1:] {
		switch name {
		case "EXIT", "0":
			keep = append(keep, "EXIT")
		case "ERR":
			keep = append(keep, name)
		default:
			p.run.m.mu.Lock()
			p.deaf = rest[0] != "-"
			p.run.m.mu.Unlock()
		}
	}
	if len(keep) == 3 {
		return []string{":"}
	}
	return keep
}

// jobNames replaces process ids by what the interpreter calls them.
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

// sourcePath is where the source builtin finds rewritten scripts. No real path begins like it.
const sourcePath = "/\x00source/"

// sourceArgs rewrites the script that is to be sourced, if need be.
func (s *shell) sourceArgs(p *process, dir string, args []string) []string {
	path := args[1]
	if !strings.Contains(path, "/") {
		if found := p.run.m.lookPath(p, "", path); found != "" {
			path = found
		}
	}
	args = slices.Clone(args)
	args[1] = absolute(dir, path)
	data, err := p.run.m.readFile(p, args[1])
	if err != nil {
		return args
	}
	if text := rewriteText(string(data)); text != string(data) {
		x := p.run
		x.m.mu.Lock()
		defer x.m.mu.Unlock()
		x.sources = append(x.sources, text)
		args[1] = sourcePath + strconv.Itoa(len(x.sources)-1)
	}
	return args
}

// source is a text that sourceArgs kept.
func (x *execution) source(path string) (string, bool) {
	number, ok := strings.CutPrefix(path, sourcePath)
	if !ok {
		return "", false
	}
	x.m.mu.Lock()
	defer x.m.mu.Unlock()
	i, err := strconv.Atoi(number)
	if err != nil || i >= len(x.sources) {
		return "", false
	}
	return x.sources[i], true
}

// jobCommand runs the commands of forkTemplate.
func (s *shell) jobCommand(ctx context.Context, hc interp.HandlerContext, p *process, args []string) error {
	switch args[0] {
	case forkCommand:
		job, err := p.run.start(p, "bash")
		if errors.Is(err, syscall.EAGAIN) {
			return noFork(ctx, hc)
		} else if err != nil {
			return interp.ExitStatus(1)
		}
		if (hc.Stdout == io.Writer(p.run.stdout) || hc.Stderr == io.Writer(p.run.stderr)) && args[1] == "1" {
			job.hold()
		}
		job.simple = args[2] == "1"
		return hc.Builtin(ctx, []string{"eval", fmt.Sprintf("%s=%d", jobVar, job.pid)})
	case bornCommand:
		pid, _ := strconv.Atoi(hc.Env.Get(jobVar).String())
		p.run.m.mu.Lock()
		defer p.run.m.mu.Unlock()
		if job := p.run.m.procs[pid]; job != nil && len(args) > 1 {
			job.job = args[1]
		}
		return nil
	}
	code, _ := strconv.Atoi(args[1])
	return status(p.exit(code))
}

// noFork is what happens to a shell that may not start another process.
func noFork(ctx context.Context, hc interp.HandlerContext) error {
	fmt.Fprintln(hc.Stderr, "bash: fork: Resource temporarily unavailable")
	return hc.Builtin(ctx, []string{"exit", "254"})
}

// status is an exit code as the interpreter wants it.
func status(code int) error {
	if code == 0 {
		return nil
	}
	return interp.ExitStatus(code)
}
