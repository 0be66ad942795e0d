package result

// Trials is a list of results, whole or packed.
type Trials interface {
	Len() int
	Key(i int) (key Key, confirmation bool)
	// At returns a result, which must not be changed.
	At(i int) *Trial
}

// Whole is a list of trials that are not packed.
type Whole []Trial

// Len returns the number of trials.
func (l Whole) Len() int { return len(l) }

// Key returns the key of a trial, and whether it is a confirmation attempt.
func (l Whole) Key(i int) (Key, bool) { return l[i].Key, l[i].Confirmation }

// At returns a trial.
func (l Whole) At(i int) *Trial { return &l[i] }

// Len returns the number of the trials and the confirmation attempts.
func (t PackedTree) Len() int { return len(t.Trials) + len(t.Confirmations) }

// Key returns the key of one of the trials, or after them of the confirmation attempts, and whether
// it is such an attempt.
func (t PackedTree) Key(i int) (Key, bool) {
	if i < len(t.Trials) {
		return t.Trials[i].Key(), t.Trials[i].Confirmation()
	}
	return t.Confirmations[i-len(t.Trials)].Key, true
}

// At returns one of the trials, or after them of the confirmation attempts.
func (t PackedTree) At(i int) *Trial {
	if i < len(t.Trials) {
		return t.Trials[i].Unpack()
	}
	return &t.Confirmations[i-len(t.Trials)]
}

// none is the index of a trial that has no result.
const none = -1

// at returns a trial; nil for none.
func at(trials Trials, i int32) *Trial {
	if i == none {
		return nil
	}
	return trials.At(int(i))
}

// find returns the index of the first trial with each of the keys, without confirmation attempts,
// or none. The keys have no duplicates.
func (l Keys) find(trials Trials) []int32 {
	found := make([]int32, l.Len())
	next := 0
	for i, key := range l.All() { // a job's trials usually have the order of its plan
		found[i] = none
		if next < trials.Len() {
			if k, confirmation := trials.Key(next); k == key && !confirmation {
				found[i] = int32(next)
				next++
			}
		}
	}
	for ; next < trials.Len(); next++ {
		if _, confirmation := trials.Key(next); !confirmation {
			return l.findByName(trials)
		}
	}
	return found
}

// Find returns the first of the trials with each of the keys; without a result where there is none.
// It returns trials itself if there is nothing to change. The keys have no duplicates.
func (l Keys) Find(trials []Packed) []Packed {
	places := l.find(PackedTree{Trials: trials})
	same := len(places) == len(trials)
	for i, n := range places {
		same = same && int(n) == i
	}
	if same {
		return trials
	}
	found := make([]Packed, len(places))
	for i, n := range places {
		if n != none {
			found[i] = trials[n]
		}
	}
	return found
}

// findByName returns the same as find. The trials may have any order.
func (l Keys) findByName(trials Trials) []int32 {
	byKey := make(map[Key]int32, trials.Len())
	for n := range trials.Len() {
		k, confirmation := trials.Key(n)
		if _, known := byKey[k]; !known && !confirmation {
			byKey[k] = int32(n)
		}
	}
	found := make([]int32, l.Len())
	for i, key := range l.All() {
		n, ok := byKey[key]
		if !ok {
			n = none
		}
		found[i] = n
	}
	return found
}
