package processes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// stopTime is how long Kill tries to stop all before it kills those it finds, if ctx gives it
	// more.
	stopTime = 10 * time.Second
	// settled is how many looks in a row have to find nothing: a process that is forked during the
	// first may have an id that was passed already.
	settled = 2
	// pause is between attempts to kill, for the killed to end.
	pause = time.Millisecond
)

// Kill kills a command and every process that it started, wherever those went: background
// processes, other sessions, orphans. root is the command, which leads a session; it may have
// ended. Only the first process of a pid namespace may call this, or one that has called Adopt, for
// its descendants; with that namespace's /proc mounted, and it has to keep waiting for its children
// meanwhile.
//
// Spared is what began before root, and what that started since and either did not abandon or has
// in its session. others are spared in the same way, though they began after root: commands that
// the caller started. An orphan of theirs that left their session cannot be told from root's, and
// is killed.
//
// When Kill returns nil, all are dead. Otherwise some may live on: ctx ended first, and the error
// wraps its cause and names them, or /proc cannot be read. Errors are never transient.
func Kill(ctx context.Context, root Process, others ...Process) error {
	pid := os.Getpid()
	if pid != 1 && !adopts() {
		return fmt.Errorf("process %d is not the first of its pid namespace: it cannot tell a command's processes", pid)
	}
	list, err := openProc()
	if err != nil {
		return err
	}
	defer list.close()
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(pid) {
		return fmt.Errorf("/proc is of another pid namespace (here, process %d is %q): mount one for this namespace: %w",
			pid, self, errors.Join(err, unix.EINVAL))
	}
	k := killer{list: list, root: root, others: others}
	if pid != 1 {
		k.list = family{list, pid}
	}
	if err := k.stopAll(ctx); err != nil {
		return err
	}
	return k.killAll(ctx)
}

// lister lists processes, and signals those that it has listed.
type lister interface {
	scan() ([]stat, error)
	signal(to Process, sig unix.Signal) error
}

type killer struct {
	list   lister
	root   Process
	others []Process
}

// stopAll stops processes until no new ones appear: a stopped process starts no others. It gives up
// in time to kill.
func (k *killer) stopAll(ctx context.Context) error {
	giveUp := time.Now().Add(stopTime)
	if deadline, ok := ctx.Deadline(); ok {
		giveUp = time.Now().Add(min(stopTime, time.Until(deadline)/2))
	}
	stopped := map[Process]bool{}
	for quiet := 0; quiet < settled && ctx.Err() == nil && time.Now().Before(giveUp); {
		victims, unclear, err := k.look()
		if err != nil {
			return err
		}
		quiet++
		for _, v := range victims {
			if !stopped[v] {
				quiet = 0
				stopped[v] = true
				if err := k.list.signal(v, unix.SIGSTOP); err != nil {
					return err
				}
			}
		}
		if unclear {
			quiet = 0
		}
	}
	return nil
}

// killAll kills processes until none is left. It does so once even if ctx has ended.
func (k *killer) killAll(ctx context.Context) error {
	nap := time.NewTimer(pause)
	defer nap.Stop()
	for quiet := 0; quiet < settled; {
		victims, unclear, err := k.look()
		if err != nil {
			return err
		}
		if len(victims) == 0 && !unclear {
			quiet++
			continue
		}
		quiet = 0
		for _, v := range victims {
			if err := k.list.signal(v, unix.SIGKILL); err != nil {
				return err
			}
		}
		nap.Reset(pause)
		select {
		case <-ctx.Done():
			return fmt.Errorf("not all processes have ended (%s): %w", ids(victims), context.Cause(ctx))
		case <-nap.C:
		}
	}
	return nil
}

// look finds the processes that are to be killed and still live.
func (k *killer) look() (victims []Process, unclear bool, err error) {
	list, err := k.list.scan()
	if err != nil {
		return nil, false, err
	}
	victims, unclear = classify(list, k.root, k.others)
	return victims, unclear, nil
}

// ids lists the ids of processes for messages, not more than a few.
func ids(list []Process) string {
	const most = 10
	var out []string
	for i, p := range list {
		if i == most {
			out = append(out, fmt.Sprintf("%d more", len(list)-most))
			break
		}
		out = append(out, strconv.Itoa(p.PID))
	}
	return strings.Join(out, ", ")
}
