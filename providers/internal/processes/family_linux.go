package processes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Adopt makes this process the parent of all orphans among its descendants, so that none of them
// can leave its family: Kill works as in the first process of a pid namespace, for the family.
func Adopt() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("adopt orphans: %w", err)
	}
	return nil
}

// adopts reports whether Adopt was called.
func adopts() bool {
	var set int32
	err := unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&set)), 0, 0, 0) // #nosec G103 -- the call takes a pointer
	return err == nil && set != 0
}

// family lists the descendants of this process, which adopts their orphans, in the form of
// classify: this process is process 1. All others of the pid namespace are left out.
type family struct {
	*proc
	self int
}

func (f family) scan() ([]stat, error) {
	all, err := f.proc.scan()
	if err != nil {
		return nil, err
	}
	parents := make(map[int]int, len(all))
	for _, s := range all {
		parents[s.PID] = s.parent
	}
	var mine []stat
	for _, s := range all {
		member, sure := belongs(s.PID, f.self, parents)
		switch {
		case s.PID == f.self:
			s.PID, s.parent = 1, 0
		case !sure:
			s.parent = unknownParent // its parent ended meanwhile: classify asks for another look
		case !member:
			continue
		case s.parent == f.self:
			s.parent = 1
		}
		mine = append(mine, s)
	}
	return mine, nil
}

// unknownParent is the id of no process.
const unknownParent = -1

// belongs reports whether a process is self or descends from it. It is not sure if the parent of
// one of them is missing.
func belongs(pid, self int, parents map[int]int) (member, sure bool) {
	for range len(parents) + 1 { // a list made while processes end may have a circle
		if pid == self {
			return true, true
		}
		parent, ok := parents[pid]
		if !ok {
			return false, false
		}
		if parent == 0 {
			return false, true
		}
		pid = parent
	}
	return false, false
}

// Descends reports whether a process descends from this one. A process that has ended does not.
func Descends(pid int) (bool, error) {
	list, err := openProc()
	if err != nil {
		return false, err
	}
	defer list.close()
	all, err := list.scan()
	if err != nil {
		return false, err
	}
	parents := make(map[int]int, len(all))
	for _, s := range all {
		parents[s.PID] = s.parent
	}
	member, _ := belongs(pid, os.Getpid(), parents)
	return member, nil
}

// KillFamily kills all descendants of this process, which has called Adopt and has to keep waiting
// for its children meanwhile. When it returns nil, all are dead.
func KillFamily(ctx context.Context) error {
	if !adopts() {
		return errors.New("this process does not adopt orphans")
	}
	list, err := openProc()
	if err != nil {
		return err
	}
	defer list.close()
	k := killer{list: all{family{list, os.Getpid()}}, root: Process{PID: unknownParent}}
	if err := k.stopAll(ctx); err != nil {
		return err
	}
	return k.killAll(ctx)
}

// all gives every process of a family the form of an orphan that began after the command.
type all struct{ family }

func (a all) scan() ([]stat, error) {
	list, err := a.family.scan()
	for i := range list {
		if list[i].PID != 1 {
			list[i].session, list[i].parent = 0, 1
		}
	}
	return list, err
}
