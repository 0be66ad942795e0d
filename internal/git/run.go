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

	"github.com/org/rollout-action/internal/untrusted"
)

// Error is a git that failed.
type Error struct {
	Doing   string // "fetch", "ls-remote", …
	Remote  string // safe to show
	Message string // what git said last, safe to show; may be empty
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

// call is one run of git.
type call struct {
	dir     string // the repository, or a directory in none
	remote  Remote
	network bool // whether it may talk to the remote
	env     []string
	config  [][2]string // besides the Client's, whose entries it wins over
	args    []string
	stdin   io.Reader
	stdout  io.Writer // nil: what is written is returned
	// grows is the directory that the call fills. It is ended when that has more than MaxBytes.
	grows string
}

const (
	maxOutput = 64 << 20 // bytes that are kept of what git writes
	maxStderr = 16 << 10
)

var (
	errTooMuch = errors.New("it is larger than allowed")
	errTimeout = errors.New("it took too long and was ended")
)

// run runs git, and ends it and everything that it started when ctx does.
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
	// A fetch is several processes; a group of their own lets them be ended together, and by nobody else's signal.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	var out limited
	out.left = maxOutput
	cmd.Stdout = &out
	if c.stdout != nil {
		cmd.Stdout = c.stdout
	}
	said := tail{size: maxStderr}
	cmd.Stderr = &said
	err = cmd.Run()
	if err == nil {
		return out.text.Bytes(), nil
	}
	if out.left < 0 {
		err, said.text = errTooMuch, nil // git only knows that nobody listens any more
	}
	if cause := context.Cause(inner); cause != nil {
		err = cause
		if ctx.Err() == nil {
			said.text = nil // what an ended git says leads astray
		}
	}
	return nil, &Error{Doing: c.args[0], Remote: c.remote.shown, Message: c.remote.message(said.text), Err: err}
}

// environment is what git sees of the world. Its configuration comes this way, so that addresses and credentials stand in
// no list of processes.
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
	allowed := "none" // not even what a partial clone would fetch by itself
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

// watch ends a call whose directory grows too large.
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

// message is the end of what git said, safe to show.
func (r Remote) message(said []byte) string {
	text := string(said)
	if r.secret != "" {
		text = strings.ReplaceAll(text, r.secret, "***")
	}
	var lines []string
	for _, line := range strings.Split(text, "\n") {
		if line = safe(line); line != "" && !strings.HasPrefix(line, "hint:") {
			lines = append(lines, line)
		}
	}
	return untrusted.Cut(strings.Join(lines[max(0, len(lines)-3):], "; "), 600)
}

// safe is text from outside, fit to be shown.
func safe(text string) string { return untrusted.Cut(untrusted.Line(text), 500) }

// limited keeps what is written, up to a bound. The buffer is not embedded: io.Copy would find its ReadFrom, which has none.
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

// tail keeps the end of what is written.
type tail struct {
	text []byte
	size int
}

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if over := len(t.text) - t.size; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(p), nil
}
