package apple

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/lib/excerpt"
	"github.com/org/rollout-action/providers/internal/hosted"
)

// The options and the formats of output in this package are those of version 1.2.2.
// Source: https://github.com/apple/container/blob/1.2.2/docs/command-reference.md.

const (
	// maxOutput bounds what a command prints for this program.
	maxOutput = 64 << 20
	// waitDelay is how long a command that was ended may keep its output open.
	waitDelay = 5 * time.Second
)

// command runs the program container.
type command struct{ path string }

// commandError is a failure that the program reported.
type commandError struct {
	verb string // such as "image pull"
	code int
	said string
}

func (e *commandError) Error() string {
	if e.said == "" {
		return fmt.Sprintf("container %s: exit code %d", e.verb, e.code)
	}
	return fmt.Sprintf("container %s: %s", e.verb, e.said)
}

// errTooMuch is the error of a command that prints more than maxOutput.
var errTooMuch = errors.New("it prints more than this program reads")

// start prepares a command. It has a process group without this one's signals, and ends with ctx.
func (c command) prepare(ctx context.Context, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.path, args...) // #nosec G204 -- the provider's own command
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = waitDelay
	return cmd
}

// run runs a command and returns its output. verb is how many of args name the command. tell,
// if not nil, gets the lines of its standard error.
func (c command) run(ctx context.Context, verb int, tell io.Writer, args ...string) ([]byte, error) {
	cmd := c.prepare(ctx, args)
	out, said := bounded{left: maxOutput}, excerpt.Ends{}
	cmd.Stdout, cmd.Stderr = &out, &said
	if tell != nil {
		cmd.Stderr = io.MultiWriter(&said, tell)
	}
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case out.left < 0:
		return nil, errTooMuch
	case err == nil || errors.Is(err, exec.ErrWaitDelay):
		return out.kept.Bytes(), nil
	}
	return nil, c.failure(err, strings.Join(args[:verb], " "), said.String())
}

// failure returns the error of a command that ended with err.
func (c command) failure(err error, verb, said string) error {
	exit := new(exec.ExitError)
	if !errors.As(err, &exit) {
		return &environment.Error{Kind: environment.KindUnavailable, Err: fmt.Errorf("run %s: %w", c.path, err)}
	}
	return &commandError{verb: verb, code: exit.ExitCode(), said: strings.TrimPrefix(hosted.OneLine(said), "Error: ")}
}

// bounded stores at most left more bytes, and fails writes beyond them.
type bounded struct {
	kept bytes.Buffer // not embedded: io.Copy would use its ReadFrom
	left int
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errTooMuch
	}
	return b.kept.Write(p)
}
