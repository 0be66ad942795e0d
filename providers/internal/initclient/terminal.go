//go:build linux

package initclient

import (
	"context"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/initwire"
)

// StartOnTerminal requests the start of a command on a new terminal. It is like Start.
func (b *Client) StartOnTerminal(ctx context.Context, command initwire.Command, t environment.Terminal, stdin io.Reader, stdout io.Writer) (*Started, error) {
	answer, err := b.Call(ctx, initwire.Request{Op: initwire.Terminal, User: command.User})
	if err != nil {
		return nil, err
	}
	if len(answer.Files) != 2 {
		for _, f := range answer.Files {
			f.Close()
		}
		return nil, fmt.Errorf("%d files for a terminal, want 2", len(answer.Files))
	}
	shown, commands := answer.Files[0], answer.Files[1]
	setSize(shown, t.Size)
	out := &output{ours: shown, ended: make(chan struct{})}
	in := &input{}
	s := &Started{b: b, in: in, out: out, errs: out}
	command.Terminal = true
	copies := []*os.File{commands}
	for range 2 { // send closes each file
		fd, err := unix.FcntlInt(commands.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			shown.Close()
			closeAll(copies)
			return nil, fmt.Errorf("make a terminal: %w", err)
		}
		copies = append(copies, os.NewFile(uintptr(fd), "commands"))
	}
	if s.ID, s.answers, err = b.Send(initwire.Request{Op: initwire.Exec, Command: &command}, copies...); err != nil {
		shown.Close()
		return nil, err
	}
	go out.carry(stdout)
	if stdin != nil {
		go in.copyTo(shown, stdin)
	}
	if t.Resized != nil {
		go func() {
			for {
				select {
				case size := <-t.Resized:
					setSize(shown, size)
				case <-out.ended:
					return
				}
			}
		}()
	}
	return s, nil
}

// setSize sets the size of a terminal. One that is unknown or refused is left out: commands work
// without it.
func setSize(terminal *os.File, size environment.TerminalSize) {
	raw, err := terminal.SyscallConn()
	if err != nil || size == (environment.TerminalSize{}) {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Columns})
	})
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
