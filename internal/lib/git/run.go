package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/org/rollout-action/internal/lib/excerpt"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// Error is a failed git command.
type Error struct {
	Doing   string // "fetch", "ls-remote", …
	Remote  string // safe to print
	Message string // the beginning and the end of git's stderr, safe to print; may be empty
	Err     error
}

func (e *Error) Error() string {
	text := fmt.Sprintf("git %s %s: ", e.Doing, e.Remote)
	if e.Message != "" {
		return text + e.Message
	}
	return text + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// call is one git command.
type call struct {
	dir     string // the repository, or a directory outside of any
	remote  Remote
	network bool // may connect to the remote
	env     []string
	config  [][2]string // added to the Client's, and wins over it
	args    []string
	stdin   io.Reader
	stdout  io.Writer // nil: run returns the output
	// grows is the directory that the call fills. If it gets larger than MaxBytes, the call is
	// ended.
	grows string
	// memory limits the memory of each process that git starts, and of git, in bytes; 0: no limit.
	memory int64
}

const (
	maxOutput = 64 << 20 // bytes of git's output that are kept
	maxStderr = 16 << 10
	maxLines  = 5 // of git's output, in a message
)

var (
	errTooMuch = errors.New("it is larger than allowed")
	errTimeout = errors.New("it took too long and was ended")
	errMemory  = errors.New("out of memory")
)

// run runs git. When ctx ends, it kills git and all processes that git started.
func (g *Client) run(ctx context.Context, c call) ([]byte, error) {
	program, err := g.find()
	if err != nil {
		return nil, err
	}
	inner, cancel := context.WithTimeoutCause(ctx, g.Timeout, errTimeout)
	defer cancel()
	inner, tooMuch := context.WithCancelCause(inner)
	defer tooMuch(nil)
	if c.grows != "" {
		go g.watch(inner, c.grows, tooMuch)
	}
	cmd := exec.CommandContext(inner, program, c.args...)
	cmd.Dir, cmd.Stdin = c.dir, c.stdin
	cmd.Env = g.environment(c)
	// git fetch starts several processes. In a separate process group, they can be killed together,
	// and get no signals meant for us.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	var out limited
	out.left = maxOutput
	cmd.Stdout = &out
	if c.stdout != nil {
		cmd.Stdout = c.stdout
	}
	stderr := excerpt.Ends{Size: maxStderr}
	cmd.Stderr = &stderr
	if err = cmd.Start(); err == nil {
		limitMemory(cmd.Process.Pid, c.memory)
		err = cmd.Wait()
	}
	if err == nil {
		return out.text.Bytes(), nil
	}
	message := stderr.String()
	if c.memory > 0 && strings.Contains(strings.ToLower(message), errMemory.Error()) {
		err = errors.Join(errMemory, err)
	}
	if out.left < 0 {
		err, message = errTooMuch, "" // stderr only has a broken pipe
	}
	if cause := context.Cause(inner); cause != nil {
		err = cause
		if ctx.Err() == nil {
			message = "" // the messages of a killed git mislead
		}
	}
	return nil, &Error{Doing: c.args[0], Remote: c.remote.shown, Message: c.remote.message(message), Err: err}
}

// environment returns the environment of git. It includes the configuration, so addresses and
// credentials do not show in process lists.
func (g *Client) environment(c call) []string {
	env := slices.Concat(g.inherited(), hardened)
	if g.getenv("GIT_SSH_COMMAND") == "" && g.getenv("GIT_SSH") == "" {
		env = append(env, "GIT_SSH_COMMAND=ssh -o BatchMode=yes -o ConnectTimeout=30 -o ServerAliveInterval=15 "+
			"-o ForwardAgent=no -o ForwardX11=no -o ClearAllForwardings=yes")
	}
	config := append(g.config(), c.config...)
	if c.remote.url != "" {
		config = append(config, [2]string{"remote.origin.url", c.remote.url})
	}
	allowed := "none" // also forbids the lazy fetches of a partial clone
	if c.network {
		allowed = c.remote.allowed()
		helper, variables := g.loginFor(c.remote)
		config, env = append(config, helper...), append(env, variables...)
	} else {
		env = append(env, "GIT_NO_LAZY_FETCH=1")
	}
	env = append(env,
		"GIT_ALLOW_PROTOCOL="+allowed, "GIT_CEILING_DIRECTORIES="+filepath.Dir(c.dir),
		"GIT_CONFIG_COUNT="+strconv.Itoa(len(config)))
	for i, entry := range config {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, entry[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, entry[1]))
	}
	return append(env, c.env...)
}

// watch ends a call when its directory gets too large.
func (g *Client) watch(ctx context.Context, dir string, end context.CancelCauseFunc) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if sizeOf(dir) > g.MaxBytes {
				end(fmt.Errorf("%w: %d MiB", errTooMuch, g.MaxBytes>>20))
				return
			}
		}
	}
}

// message returns the beginning and the end of git's messages, on one line and safe to print. Both
// matter: the first failure and git's conclusion.
func (r Remote) message(text string) string {
	if r.secret != "" {
		text = strings.ReplaceAll(text, r.secret, "***")
	}
	var lines []string
	for _, line := range strings.Split(text, "\n") {
		if line = safe(line); line != "" && !strings.HasPrefix(line, "hint:") {
			lines = append(lines, line)
		}
	}
	const lineSize = 300
	said := excerpt.Text{Tail: lines}.Fit(maxLines, maxLines*lineSize, lineSize)
	return strings.Join(said.Lines(), "; ")
}

// safe returns untrusted text on one line, shortened and safe to print.
func safe(text string) string { return excerpt.Line(untrusted.Line(text), 500) }

// limited is a writer that keeps its input up to a limit. The buffer is not embedded: io.Copy would
// use its ReadFrom, which has no limit.
type limited struct {
	text bytes.Buffer
	left int64
}

func (l *limited) Write(p []byte) (int, error) {
	if l.left -= int64(len(p)); l.left < 0 {
		return 0, errTooMuch
	}
	return l.text.Write(p)
}
