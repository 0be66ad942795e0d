package result

import (
	"bytes"
	"cmp"
	"encoding/json"
	"hash/maphash"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/lib/bounded"
)

// Outcomes is a list of outcomes in little memory: 48 bytes each, and once for the attempts at a
// task, its names and digest. An Outcome takes four times as much. The zero Outcomes is empty, and
// null in files. Copies share their elements: a list that is appended to, changed or sorted must
// have no copy that is used afterwards, unless that is a Clone.
type Outcomes struct { //nolint:recvcheck // encoders need MarshalJSON of values
	rows  []row
	more  []rowMore
	tasks []outcomeTask
	mixed bool             // tasks may not be in order
	index map[uint64]int32 // of mixed tasks by hash, or the next number that was free; nil: not made yet
}

// outcomeTask is the part of an outcome that the attempts at a task share.
type outcomeTask struct{ agent, dataset, task, digest string }

// row is the rest of an outcome. It has no pointers, so that the garbage collector does not read
// it.
type row struct {
	reward, cost, durationSec float64

	startedAt        int64 // in nanoseconds since 1970
	task, experiment int32
	more             int32 // the index of its rowMore, from 1; 0: the zero rowMore
	attempt          int16
	marks            rowMarks
}

// rowMarks is a set of facts about an outcome.
type rowMarks uint8

const (
	rowRewarded   rowMarks = 1 << iota // there is a reward
	rowCosted                          // the cost was reported
	rowCostPartly                      // a part of it is not known
	rowCostAtLeast
	rowStarted // startedAt is set
	rowReused
	rowAgain
)

// rowMore holds the fields that few outcomes have, and numbers and times that do not fit into a
// row.
type rowMore struct {
	Error            ErrorType
	ImageSec         float64
	Usage            *OutcomeUsage
	Scores           map[string]OutcomeScore
	JudgeCost        USD
	JudgeCostAtLeast bool
	Attempt          int
	Experiment       int
	StartedAt        time.Time
}

// OutcomesOf returns a list.
func OutcomesOf(all ...Outcome) Outcomes {
	l := Outcomes{rows: make([]row, 0, len(all))}
	l.Append(all...)
	l.index = nil
	return l
}

// Len returns the number of outcomes.
func (l Outcomes) Len() int { return len(l.rows) }

// IsZero reports whether there are none, for JSON.
func (l Outcomes) IsZero() bool { return len(l.rows) == 0 }

// At returns an outcome. Callers must not write to its Reward, Usage or Scores.
func (l Outcomes) At(i int) Outcome {
	r := &l.rows[i]
	t := &l.tasks[r.task]
	is := func(m rowMarks) bool { return r.marks&m > 0 }
	o := Outcome{
		Key: Key{Task: t.task, Dataset: t.dataset, Agent: t.agent, Attempt: int(r.attempt)}, TaskDigest: t.digest,
		Cost: USD{amount: r.cost, reported: is(rowCosted), bound: is(rowCostPartly)}, CostAtLeast: is(rowCostAtLeast),
		DurationSec: r.durationSec, Experiment: int(r.experiment), Reused: is(rowReused), Again: is(rowAgain),
	}
	if is(rowRewarded) {
		o.Reward = &r.reward
	}
	if is(rowStarted) {
		o.StartedAt = time.Unix(0, r.startedAt).UTC()
	}
	if r.more > 0 {
		m := &l.more[r.more-1]
		o.Error, o.ImageSec, o.Usage, o.Scores, o.JudgeCost, o.JudgeCostAtLeast = m.Error, m.ImageSec, m.Usage, m.Scores, m.JudgeCost, m.JudgeCostAtLeast
		o.Attempt += m.Attempt
		o.Experiment += m.Experiment
		if !is(rowStarted) {
			o.StartedAt = m.StartedAt
		}
	}
	return o
}

// All returns the outcomes with their indexes.
func (l Outcomes) All() iter.Seq2[int, Outcome] {
	return func(yield func(int, Outcome) bool) {
		for i := range l.rows {
			if !yield(i, l.At(i)) {
				return
			}
		}
	}
}

// Common yields the outcomes of two lists that have one key, in the order of their keys: for each
// of m, the first one of l.
func (l Outcomes) Common(m Outcomes) iter.Seq2[Outcome, Outcome] {
	return func(yield func(Outcome, Outcome) bool) {
		l, next := l.Sorted(), 0
		for _, o := range m.Sorted().All() {
			for next < l.Len() && l.At(next).Key.Compare(o.Key) < 0 {
				next++
			}
			if next < l.Len() {
				if first := l.At(next); first.Key == o.Key && !yield(first, o) {
					return
				}
			}
		}
	}
}

// Append adds outcomes at the end.
func (l *Outcomes) Append(all ...Outcome) {
	for i := range all {
		l.rows = append(l.rows, l.row(&all[i], int32(len(l.tasks)-1), 0))
	}
}

// Change changes an outcome. change may replace Scores and Usage, and must not write into them.
func (l *Outcomes) Change(i int, change func(*Outcome)) {
	o := l.At(i)
	if o.Reward != nil {
		o.Reward = new(*o.Reward)
	}
	change(&o)
	l.rows[i] = l.row(&o, l.rows[i].task, 0)
}

// row returns an outcome as a row, and adds its task and its rowMore. likely is the index of the
// task that it most likely has, and place that of a rowMore that may be replaced.
func (l *Outcomes) row(o *Outcome, likely, place int32) row {
	r := row{cost: o.Cost.amount, durationSec: o.DurationSec, task: l.taskOf(o, likely)}
	more := rowMore{Error: o.Error, ImageSec: o.ImageSec, Usage: o.Usage, Scores: o.Scores, JudgeCost: o.JudgeCost, JudgeCostAtLeast: o.JudgeCostAtLeast}
	r.attempt, more.Attempt = small[int16](o.Attempt)
	r.experiment, more.Experiment = small[int32](o.Experiment)
	if o.Reward != nil {
		r.reward = *o.Reward
	}
	started := !o.StartedAt.IsZero()
	if started {
		r.startedAt = o.StartedAt.UnixNano()
		if at := time.Unix(0, r.startedAt).UTC(); at != o.StartedAt { // the zone counts, too
			started, r.startedAt = false, 0
		}
	}
	if !started {
		more.StartedAt = o.StartedAt
	}
	for _, m := range []struct {
		mark rowMarks
		is   bool
	}{
		{rowRewarded, o.Reward != nil}, {rowCosted, o.Cost.reported}, {rowCostPartly, o.Cost.bound}, {rowCostAtLeast, o.CostAtLeast},
		{rowStarted, started}, {rowReused, o.Reused}, {rowAgain, o.Again},
	} {
		if m.is {
			r.marks |= m.mark
		}
	}
	if more.Error != "" || math.Float64bits(more.ImageSec) != 0 || more.Usage != nil || more.Scores != nil || more.JudgeCost != (USD{}) || more.JudgeCostAtLeast || more.Attempt != 0 || more.Experiment != 0 || more.StartedAt != (time.Time{}) {
		if r.more = place; place == 0 {
			l.more = append(l.more, rowMore{})
			r.more = int32(len(l.more))
		}
		l.more[r.more-1] = more
	}
	return r
}

// small returns a number as a small one, or as rest if it is too large for that.
func small[T int16 | int32](n int) (short T, rest int) {
	if int(T(n)) != n {
		return 0, n
	}
	return T(n), 0
}

// taskOf returns the index of an outcome's task, which it adds if it is new.
func (l *Outcomes) taskOf(o *Outcome, likely int32) int32 {
	t := outcomeTask{o.Agent, o.Dataset, o.Task, o.TaskDigest}
	n := len(l.tasks)
	if likely >= 0 && l.tasks[likely] == t {
		return likely
	}
	if !l.mixed && (n == 0 || l.tasks[n-1].compare(&t) < 0) {
		l.tasks = append(l.tasks, t)
		return int32(n)
	}
	l.mixed = true
	if l.index == nil {
		l.index = make(map[uint64]int32, n)
		for i := range l.tasks {
			_, free := l.find(&l.tasks[i])
			l.index[free] = int32(i)
		}
	}
	i, free := l.find(&t)
	if i < 0 {
		i = int32(n)
		l.tasks, l.index[free] = append(l.tasks, t), i
	}
	return i
}

// find returns the index of a task, or a negative one and the number in l.index that is free for
// it.
func (l *Outcomes) find(t *outcomeTask) (i int32, free uint64) {
	for h := maphash.Comparable(hashSeed, *t); ; h++ {
		i, ok := l.index[h]
		if !ok {
			return -1, h
		}
		if int(i) < len(l.tasks) && l.tasks[i] == *t { // a copy of the list may have added another one
			return i, h
		}
	}
}

var hashSeed = maphash.MakeSeed()

// Clone returns a list that shares no elements but the Scores and Usage that they point to.
func (l Outcomes) Clone() Outcomes {
	return l.with(slices.Clone(l.rows))
}

// with returns a list of other rows.
func (l Outcomes) with(rows []row) Outcomes {
	return Outcomes{rows: rows, more: slices.Clip(l.more), tasks: slices.Clip(l.tasks), mixed: l.mixed}
}

// AppendAll adds the outcomes of another list at the end.
func (l *Outcomes) AppendAll(more Outcomes) {
	for _, o := range more.All() {
		l.Append(o)
	}
}

// Where returns the outcomes for which is returns true. It shares its elements if these are all,
// and is the zero Outcomes if there are none.
func (l Outcomes) Where(is func(Outcome) bool) Outcomes {
	chosen := make([]int32, 0, 8)
	for i, o := range l.All() {
		if is(o) {
			chosen = append(chosen, int32(i))
		}
	}
	switch len(chosen) {
	case 0:
		return Outcomes{}
	case len(l.rows):
		return l.with(slices.Clip(l.rows))
	}
	out := l.with(make([]row, len(chosen)))
	for to, from := range chosen {
		out.rows[to] = l.rows[from]
	}
	return out
}

// Without returns the outcomes for which is returns false, as Where.
func (l Outcomes) Without(is func(Outcome) bool) Outcomes {
	return l.Where(func(o Outcome) bool { return !is(o) })
}

// Sort sorts the list by key. Equal keys keep their order.
func (l *Outcomes) Sort() {
	order := make([]int32, len(l.tasks))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(l.tasks[a].compare(&l.tasks[b]), strings.Compare(l.tasks[a].digest, l.tasks[b].digest))
	})
	tasks := make([]outcomeTask, len(order))
	place := make([]int32, len(order))  // of each task
	before := make([]int32, len(order)) // the first place with the same names
	for i, was := range order {
		tasks[i], place[was], before[i] = l.tasks[was], int32(i), int32(i)
		if i > 0 && tasks[i].compare(&tasks[i-1]) == 0 {
			before[i] = before[i-1]
		}
	}
	for i := range l.rows {
		l.rows[i].task = place[l.rows[i].task]
	}
	slices.SortStableFunc(l.rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(before[a.task], before[b.task]), cmp.Compare(l.number(&a), l.number(&b)))
	})
	l.tasks, l.mixed, l.index = tasks, slices.ContainsFunc(order, func(i int32) bool { return before[i] != i }), nil
}

// Sorted returns the list in the order of its keys: itself if it is sorted.
func (l Outcomes) Sorted() Outcomes {
	for i := 1; i < len(l.rows); i++ {
		if l.compare(i-1, i) > 0 {
			l = l.Clone()
			l.Sort()
			break
		}
	}
	return l
}

// sameTask reports whether two outcomes are of one agent at one task.
func (l Outcomes) sameTask(i, j int) bool {
	a, b := l.rows[i].task, l.rows[j].task
	return a == b || l.tasks[a].compare(&l.tasks[b]) == 0
}

// compare compares the keys of two outcomes.
func (l Outcomes) compare(i, j int) int {
	a, b := &l.rows[i], &l.rows[j]
	if a.task != b.task {
		if c := l.tasks[a.task].compare(&l.tasks[b.task]); c != 0 {
			return c
		}
	}
	return cmp.Compare(l.number(a), l.number(b))
}

// number returns the attempt of a row.
func (l Outcomes) number(r *row) int {
	if r.more > 0 {
		return int(r.attempt) + l.more[r.more-1].Attempt
	}
	return int(r.attempt)
}

// compare compares the names of two tasks.
func (t *outcomeTask) compare(u *outcomeTask) int {
	return Key{Agent: t.agent, Dataset: t.dataset, Task: t.task}.Compare(Key{Agent: u.agent, Dataset: u.dataset, Task: u.task})
}

// changeCosts changes the costs of outcomes of a list of which there is no copy.
func (l *Outcomes) changeCosts(change func(*Outcome)) {
	for i, o := range l.All() {
		cost, judge, atLeast := o.Cost, o.JudgeCost, o.CostAtLeast
		if change(&o); o.Cost != cost || o.JudgeCost != judge || o.CostAtLeast != atLeast {
			l.rows[i] = l.row(&o, l.rows[i].task, l.rows[i].more)
		}
	}
}

// MarshalJSON encodes a list of Outcome, as a slice of them is encoded.
func (l Outcomes) MarshalJSON() ([]byte, error) {
	if l.rows == nil {
		return []byte("null"), nil
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false) // the encoder around it does that
	out.WriteByte('[')
	for i, o := range l.All() {
		if i > 0 {
			out.WriteByte(',')
		}
		if err := enc.Encode(&o); err != nil {
			return nil, err
		}
	}
	out.WriteByte(']')
	return out.Bytes(), nil
}

// UnmarshalJSON decodes a list of Outcome.
func (l *Outcomes) UnmarshalJSON(data []byte) error {
	var all []Outcome
	if err := bounded.Unmarshal(data, &all); err != nil {
		return err
	}
	*l = Outcomes{}
	if all != nil {
		*l = OutcomesOf(all...)
	}
	return nil
}
