package processes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// KillAll kills every process of the pid namespace but the caller, which has to be its first, and to go on waiting for its
// children meanwhile. When it returns nil, all are dead. Its errors are Kill's.
func KillAll(ctx context.Context) error {
	if pid := os.Getpid(); pid != 1 {
		return fmt.Errorf("process %d is not the first of its pid namespace: it would kill others", pid)
	}
	list, err := openProc()
	if err != nil {
		return err
	}
	defer list.close()
	for {
		// All at once: the kernel lets nothing be forked by who has been sent a signal.
		if err := unix.Kill(-1, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("kill all processes: %w", err)
		}
		found, err := list.scan()
		if err != nil {
			return err
		}
		var alive []Process
		for _, s := range found {
			if s.PID != 1 && !s.dead() {
				alive = append(alive, s.Process)
			}
		}
		if len(alive) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not all processes have ended (%s): %w", ids(alive), context.Cause(ctx))
		case <-time.After(pause):
		}
	}
}
