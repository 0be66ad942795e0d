package result

import (
	"iter"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/org/rollout-action/internal/lib/bounded"
)

// Keys is a list of keys in little memory: 8 bytes each, and 56 for the names of attempts at a task
// that follow each other, as in plans. The zero Keys is empty, and null in files. Copies share
// their elements, so only one of them may be appended to.
type Keys struct { //nolint:recvcheck // encoders need MarshalJSON of values
	rows  []keyRow
	tasks []Key // Attempt is what does not fit into a row
}

// keyRow is a key whose names are those of a task.
type keyRow struct{ task, attempt int32 }

// KeysOf returns a list.
func KeysOf(all ...Key) Keys {
	l := Keys{rows: make([]keyRow, 0, len(all))}
	l.Append(all...)
	return l
}

// Len returns the number of keys.
func (l Keys) Len() int { return len(l.rows) }

// At returns a key.
func (l Keys) At(i int) Key {
	k := l.tasks[l.rows[i].task]
	k.Attempt += int(l.rows[i].attempt)
	return k
}

// All returns the keys with their indexes.
func (l Keys) All() iter.Seq2[int, Key] {
	return func(yield func(int, Key) bool) {
		for i := range l.rows {
			if !yield(i, l.At(i)) {
				return
			}
		}
	}
}

// Slice returns the keys, each with 56 bytes and its own names; nil for the zero Keys.
func (l Keys) Slice() []Key {
	if l.rows == nil {
		return nil
	}
	all := make([]Key, len(l.rows))
	for i := range all {
		all[i] = l.At(i)
	}
	return all
}

// Append adds keys at the end.
func (l *Keys) Append(all ...Key) {
	for _, k := range all {
		var r keyRow
		r.attempt, k.Attempt = small[int32](k.Attempt)
		if n := len(l.rows); n > 0 && l.tasks[l.rows[n-1].task] == k {
			r.task = l.rows[n-1].task
		} else {
			r.task = int32(len(l.tasks))
			l.tasks = append(l.tasks, k)
		}
		l.rows = append(l.rows, r)
	}
}

// Where returns the keys for which is returns true, given their indexes.
func (l Keys) Where(is func(i int, k Key) bool) Keys {
	out := Keys{tasks: slices.Clip(l.tasks)}
	for i, k := range l.All() {
		if is(i, k) {
			out.rows = append(out.rows, l.rows[i])
		}
	}
	return out
}

// MarshalJSON encodes a list of Key, as a slice of them is encoded.
func (l Keys) MarshalJSON() ([]byte, error) { return inner(l.Slice()) }

// UnmarshalJSON decodes a list of Key.
func (l *Keys) UnmarshalJSON(data []byte) error { return bounded.Unmarshal(data, l) }

// UnmarshalJSONFrom decodes a list of Key, one after the other. It takes precedence in package
// bounded.
func (l *Keys) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	*l = Keys{}
	names := texts{}
	list, err := bounded.List(d, func(k *Key) {
		n := len(l.tasks)
		if l.Append(*k); n < len(l.tasks) {
			names.share(&l.tasks[n].Agent, &l.tasks[n].Dataset, &l.tasks[n].Task)
		}
	})
	if list && l.rows == nil {
		l.rows = []keyRow{}
	}
	return err
}

// texts has each text once.
type texts map[string]string

// share replaces texts with the copies that equal ones have.
func (t texts) share(all ...*string) {
	for _, text := range all {
		same, ok := t[*text]
		if !ok {
			same = *text
			t[same] = same
		}
		*text = same
	}
}
