//go:build linux

package initproc

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/providers/internal/initwire"
)

// terminal makes a terminal. It runs before the Exec that comes next.
func (s *server) terminal(request initwire.Request) {
	answer := initwire.Answer{ID: request.ID}
	files, err := s.makeTerminal(request.User)
	if err != nil {
		answer.Kind, answer.Problem = initwire.NotStarted, err.Error()
	}
	err = s.conn.Send(answer, files...)
	closeFiles(files)
	if err != nil {
		os.Exit(1)
	}
}

// multiplexer is where terminals of the sandbox are made. Commands cannot unmount or replace it.
const multiplexer = "/dev/pts/ptmx"

// makeTerminal returns the two ends of a new terminal of the sandbox: that of the program that
// shows it, which does not block, and that of the commands on it, which belongs to user.
func (s *server) makeTerminal(user string) ([]*os.File, error) {
	who, err := identify(user)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Open(multiplexer, unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make a terminal: %w", err)
	}
	shown := os.NewFile(uintptr(fd), "terminal")
	var system unix.Statfs_t
	if err = unix.Fstatfs(fd, &system); err == nil && system.Type != unix.DEVPTS_SUPER_MAGIC {
		err = errors.New(multiplexer + " is something else")
	}
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		shown.Close()
		return nil, fmt.Errorf("make a terminal: %w", err)
	}
	// Not opened by its path, which commands could change.
	end, _, failed := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if failed != 0 {
		shown.Close()
		return nil, fmt.Errorf("make a terminal: %w", failed)
	}
	files := []*os.File{shown, os.NewFile(end, "commands")}
	if who.uid == 0 || s.children.oneID {
		return files, nil
	}
	if err := unix.Fchown(int(end), int(who.uid), -1); err != nil { // the group stays
		closeFiles(files)
		return nil, fmt.Errorf("give a terminal to user %q: %w", user, err)
	}
	return files, nil
}
