package processes

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// Container is the pid namespace of a container, seen from a namespace that contains it: by all ids
// that it takes and returns a process is known there. Reading the namespaces of others takes
// CAP_SYS_PTRACE, signalling them CAP_KILL.
//
// Processes cannot leave their pid namespace, nor enter one. Those of namespaces within the
// container's are its own, too.
type Container struct {
	list      *proc
	first     int
	namespace string
	members   map[Process]bool // whether a process is in the container; that never changes
}

// ErrNoContainer reports that a process is not the first of a pid namespace below this one.
var ErrNoContainer = errors.New("not the first process of a pid namespace within this one")

// OpenContainer looks into the container whose first process has the id first.
func OpenContainer(first int) (*Container, error) {
	list, err := openProc()
	if err != nil {
		return nil, err
	}
	c := &Container{list: list, first: first, members: map[Process]bool{}}
	if err := c.enter(); err != nil {
		list.close()
		return nil, err
	}
	return c, nil
}

// enter checks that first is process 1 of a namespace below this one. With a wrong namespace,
// processes outside of the container would be killed.
func (c *Container) enter() error {
	ours, err := c.list.namespace("self")
	if err != nil {
		return err
	}
	id := strconv.Itoa(c.first)
	if c.namespace, err = c.list.namespace(id); err != nil {
		return err
	}
	alone, err := c.list.isFirst(id)
	if err != nil {
		return err
	}
	if c.first < 1 || c.namespace == ours || !alone {
		return fmt.Errorf("process %d: %w", c.first, ErrNoContainer)
	}
	return nil
}

// Close releases the resources of the Container.
func (c *Container) Close() { c.list.close() }

// Find returns the process of the container that has an id now. The error is unix.ESRCH if there is
// none.
func (c *Container) Find(pid int) (Process, error) {
	list, err := c.scan()
	if err != nil {
		return Process{}, err
	}
	for _, s := range list {
		if s.PID == pid && s.PID != c.first {
			return s.Process, nil
		}
	}
	return Process{}, fmt.Errorf("process %d of the container: %w", pid, unix.ESRCH)
}

// Strike sends SIGKILL to the command root and every process that it started, like Kill, and does
// not wait for their end. It is for a container of which all processes are held still, so that none
// can start others meanwhile: they are dead before they could do anything else.
func (c *Container) Strike(root Process, others ...Process) error {
	victims, _, err := c.look(root, others)
	if err != nil {
		return err
	}
	for _, v := range victims {
		if err := c.list.signal(v, unix.SIGKILL); err != nil {
			return err
		}
	}
	return nil
}

// Kill kills the command root and every process that it started, wherever those went, and returns
// nil when all are dead. Spared is what the function Kill spares; that a process has its parent
// outside of the container does not spare it, for a command can make such children (CLONE_PARENT).
// Its errors are those of the function.
func (c *Container) Kill(ctx context.Context, root Process, others ...Process) error {
	k := killer{list: c, root: root, others: others}
	if err := k.stopAll(ctx); err != nil {
		return err
	}
	return k.killAll(ctx)
}

func (c *Container) look(root Process, others []Process) ([]Process, bool, error) {
	k := killer{list: c, root: root, others: others}
	return k.look()
}

func (c *Container) signal(to Process, sig unix.Signal) error { return c.list.signal(to, sig) }

// scan lists the container's processes in the form of classify: the first is process 1, and a
// process with its parent outside is an orphan, so a child of process 1.
func (c *Container) scan() ([]stat, error) {
	all, err := c.list.scan()
	if err != nil {
		return nil, err
	}
	byID := make(map[int]stat, len(all))
	for _, s := range all {
		byID[s.PID] = s
	}
	known := make(map[Process]bool, len(all)) // only of those that live
	var mine []stat
	for _, s := range all {
		member, err := c.isMember(s, byID, len(all))
		if err != nil {
			return nil, err
		}
		known[s.Process] = member
		if !member {
			continue
		}
		parent, ok := byID[s.parent]
		if ok && s.parent != c.first {
			if ok, err = c.isMember(parent, byID, len(all)); err != nil {
				return nil, err
			}
		}
		if !ok || s.parent == c.first {
			s.parent = 1
		}
		if s.PID == c.first {
			s.PID, s.parent = 1, 0
		}
		mine = append(mine, s)
	}
	c.members = known
	return mine, nil
}

// isMember reports whether a process is in the container's namespace, or in one within it: then it
// descends from a process in the container's, for the first process of a namespace is a child of
// the one around it.
func (c *Container) isMember(s stat, byID map[int]stat, depth int) (bool, error) {
	if member, known := c.members[s.Process]; known {
		return member, nil
	}
	namespace, err := c.list.namespace(strconv.Itoa(s.PID))
	// Processes outside may be another user's. One that ended meanwhile has no namespace.
	if err != nil && !gone(err) && !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EPERM) {
		return false, err
	}
	member := err == nil && namespace == c.namespace
	if parent, ok := byID[s.parent]; !member && ok && depth > 0 { // a list made while processes end may have a circle
		if member, err = c.isMember(parent, byID, depth-1); err != nil {
			return false, err
		}
	}
	c.members[s.Process] = member
	return member, nil
}
