package processes

import (
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// signal sends a signal to the process, and not to another that has got its id since. That it has
// ended is no error.
func (p *proc) signal(to Process, sig unix.Signal) error {
	fd, err := unix.PidfdOpen(to.PID, 0)
	if gone(err) {
		return nil
	}
	send := func() error { return unix.PidfdSendSignal(fd, sig, nil, 0) }
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		// Linux before 5.3, or a container whose filter does not know the call. The id could be
		// used again between the look and the signal, if all others were in between.
		send, err = func() error { return unix.Kill(to.PID, sig) }, nil
	} else if err == nil {
		defer unix.Close(fd)
	}
	if err != nil {
		return fmt.Errorf("get hold of process %d: %w", to.PID, err)
	}
	// Only now, as the descriptor stays with the process that had the id when it was opened.
	switch s, err := p.stat(strconv.Itoa(to.PID)); {
	case gone(err):
		return nil
	case err != nil:
		return fmt.Errorf("look at process %d: %w", to.PID, err)
	case s.Start != to.Start:
		return nil
	}
	if err := send(); err != nil && !gone(err) {
		return fmt.Errorf("send %s to process %d: %w", unix.SignalName(sig), to.PID, err)
	}
	return nil
}
