package processes

import "slices"

// classify returns the processes that the command root has started, and itself, without dead ones.
// unclear says that the list cannot be relied on: the parent of a process ended while the list was
// made.
//
// The command has started every process that began later than it, except those of unrelated
// processes. An unrelated process began earlier, is one of the others, or came from outside of the
// namespace. Its descendants are unrelated, too, and so are all in its session, because a session
// can be left but never joined. For process 1, only its session counts, because orphans become its
// children.
func classify(list []stat, root Process, others []Process) (victims []Process, unclear bool) {
	c := classifier{root: root, others: others, known: make(map[int]stat, len(list)), sessions: map[int]bool{}}
	for _, s := range list {
		c.known[s.PID] = s
	}
	for _, s := range list {
		if s.session > 0 && (s.PID == 1 || c.unrelated(s)) {
			c.sessions[s.session] = true
		}
	}
	for _, s := range list {
		switch mine, sure := c.victim(s); {
		case !sure:
			unclear = true
		case mine:
			victims = append(victims, s.Process)
		}
	}
	return victims, unclear
}

type classifier struct {
	root     Process
	others   []Process
	known    map[int]stat
	sessions map[int]bool // of unrelated processes
}

func (c *classifier) victim(s stat) (mine, sure bool) {
	if s.PID == 1 || s.dead() {
		return false, true
	}
	if s.Process == c.root {
		return true, true
	}
	if c.sessions[s.session] {
		return false, true
	}
	found, sure := c.ancestor(s, c.unrelated)
	return !found, sure
}

// unrelated reports whether the process was there before the command, or has nothing to do with it.
// It is not asked about process 1.
func (c *classifier) unrelated(s stat) bool {
	switch {
	case s.Process == c.root: // whoever names it among the others
		return false
	case slices.Contains(c.others, s.Process) || s.parent == 0:
		return true
	case s.Start != c.root.Start:
		return s.Start < c.root.Start
	}
	// Both began in the same hundredth of a second, which is long: a command may follow another in
	// a thousandth. Ids are given in ascending order, and start over at the end: then a descendant
	// of the command may have a lower one. An orphan of the command with a lower id passes for an
	// unrelated process; the ids would have to start over within that hundredth.
	descends, _ := c.ancestor(s, func(a stat) bool { return a.Process == c.root })
	return s.PID < c.root.PID && !descends
}

// ancestor reports whether the process or one that it descends from, below process 1, satisfies is.
// It is not sure if an ancestor is missing from the list.
func (c *classifier) ancestor(s stat, is func(stat) bool) (found, sure bool) {
	for range c.known { // a list made while processes end may have a circle
		if is(s) {
			return true, true
		}
		if s.parent <= 1 {
			return false, true
		}
		parent, ok := c.known[s.parent]
		if !ok {
			return false, false
		}
		s = parent
	}
	return false, false
}
