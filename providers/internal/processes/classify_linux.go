package processes

import "slices"

// judge says which of the processes are the command's, dead ones left out, and whether the list is too
// unclear to rely on: a process whose parent ended while the list was made is not judged.
//
// What began later than the command was started by it, unless it is an elder's: an elder began earlier, is
// one of the others, or came from outside of the namespace. An elder's are its descendants, and all in its
// session, for a session can be left but never joined. Process 1 is an elder only for its session, because
// orphans become its children.
func judge(list []stat, root Process, others []Process) (victims []Process, unclear bool) {
	j := jury{root: root, others: others, known: make(map[int]stat, len(list)), sessions: map[int]bool{}}
	for _, s := range list {
		j.known[s.PID] = s
	}
	for _, s := range list {
		if s.session > 0 && (s.PID == 1 || j.elder(s)) {
			j.sessions[s.session] = true
		}
	}
	for _, s := range list {
		switch mine, sure := j.victim(s); {
		case !sure:
			unclear = true
		case mine:
			victims = append(victims, s.Process)
		}
	}
	return victims, unclear
}

type jury struct {
	root     Process
	others   []Process
	known    map[int]stat
	sessions map[int]bool // of elders
}

func (j *jury) victim(s stat) (mine, sure bool) {
	if s.PID == 1 || s.dead() {
		return false, true
	}
	if s.Process == j.root {
		return true, true
	}
	if j.sessions[s.session] {
		return false, true
	}
	found, sure := j.ancestor(s, j.elder)
	return !found, sure
}

// elder is whether the process was there before the command, or has nothing to do with it. It is not asked
// about process 1.
func (j *jury) elder(s stat) bool {
	switch {
	case s.Process == j.root: // whoever names it among the others
		return false
	case slices.Contains(j.others, s.Process) || s.parent == 0:
		return true
	case s.Start != j.root.Start:
		return s.Start < j.root.Start
	}
	// Both began in the same hundredth of a second, which is long: a command may follow another in a
	// thousandth. Ids are given in ascending order, and start over at the end: then a descendant of the
	// command may have a lower one. What cannot be told is an orphan of the command's with a lower one. It
	// passes for an elder; the ids would have to start over within that hundredth.
	descends, _ := j.ancestor(s, func(a stat) bool { return a.Process == j.root })
	return s.PID < j.root.PID && !descends
}

// ancestor is whether the process or one that it descends from, below process 1, is what is looked for. It
// is not sure if an ancestor is missing from the list.
func (j *jury) ancestor(s stat, is func(stat) bool) (found, sure bool) {
	for range j.known { // a list made while processes end may have a circle
		if is(s) {
			return true, true
		}
		if s.parent <= 1 {
			return false, true
		}
		parent, ok := j.known[s.parent]
		if !ok {
			return false, false
		}
		s = parent
	}
	return false, false
}
