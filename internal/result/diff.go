package result

import (
	"cmp"
	"maps"
	"slices"
)

// Change is what became of one agent's task between two jobs.
type Change string

// The changes, from the most to the least telling.
const (
	Broken  Change = "broken"  // every attempt passed, now none does
	Errored Change = "errored" // no attempt has a reward any more, because of errors
	Worse   Change = "worse"   // the mean reward fell
	Fixed   Change = "fixed"   // no attempt passed, now every one does
	Better  Change = "better"  // the mean reward rose
	Changed Change = "changed" // the task's own files changed, so that the two are not comparable
	New     Change = "new"     // the baseline has no such task
	Removed Change = "removed" // the baseline has it, this job has not
	Same    Change = "same"
)

// Changes are all of them, in that order.
var Changes = []Change{Broken, Errored, Worse, Fixed, Better, Changed, New, Removed, Same}

// Diff is a job held against its baseline, task by task. Its zero value compares nothing.
type Diff struct {
	Base, Head Job
	Tasks      []TaskDiff     // sorted by agent, dataset and task
	Counts     map[Change]int // of Tasks; every change has an entry
	Flaky      int            // how many of Tasks are flaky
	Overall    GroupDiff
	Groups     []GroupDiff // for each agent and dataset, sorted
}

// TaskDiff is one agent's task. Base or Head is nil where there is none.
type TaskDiff struct {
	Agent, Dataset, Task string
	Change               Change
	Flaky                bool // some attempts of this job pass and some do not
	Base, Head           *Attempts
}

// Comparable reports whether rewards on both sides are about the same task, so that their difference means something.
func (d TaskDiff) Comparable() bool {
	return d.Change != Changed && d.Base != nil && d.Head != nil && len(d.Base.Rewards) > 0 && len(d.Head.Rewards) > 0
}

// Attempts is what the attempts of one agent at one task came to.
type Attempts struct {
	Total       int         // planned ones
	Rewards     []float64   // of completed attempts, by attempt
	Passed      int         // with reward 1
	Failed      int         // ended with an error and without a reward
	Errors      []ErrorType // of all attempts that have one, by attempt
	Cost        float64     // US dollars, together
	DurationSec float64     // together
	Digest      string      // of the task; "" if not known
}

// Mean is the mean reward of completed attempts, and 0 without any.
func (a Attempts) Mean() float64 {
	sum := 0.0
	for _, r := range a.Rewards {
		sum += r
	}
	return ratio(sum, len(a.Rewards))
}

// GroupDiff compares what is comparable: the tasks that both jobs have, unchanged, with rewards on both sides.
// Rates and rewards are means over those tasks, each task counting once however many attempts it has.
type GroupDiff struct {
	Agent, Dataset string // "" for the whole job
	Tasks          int    // comparable ones
	Base, Head     Level
}

// Level is where a job stands on a group of tasks.
type Level struct {
	PassRate    float64
	MeanReward  float64
	Cost        float64 // US dollars, of all attempts at these tasks
	DurationSec float64 // of all attempts at these tasks, together
}

// Compare holds head against base. Trials are matched by key, tasks by their digest: where both are known and
// differ the task is Changed, whatever its rewards. The jobs are not changed.
func Compare(base, head Job) Diff {
	before, after := attempts(base), attempts(head)
	d := Diff{Base: base, Head: head, Counts: map[Change]int{}}
	for _, c := range Changes {
		d.Counts[c] = 0
	}
	keys := slices.Collect(maps.Keys(after))
	for k := range before {
		if after[k] == nil {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, Key.Compare)
	for _, k := range keys {
		t := TaskDiff{Agent: k.Agent, Dataset: k.Dataset, Task: k.Task, Base: before[k], Head: after[k]}
		t.Change = change(t.Base, t.Head)
		t.Flaky = t.Head != nil && t.Head.Passed > 0 && t.Head.Passed < len(t.Head.Rewards)
		d.Counts[t.Change]++
		if t.Flaky {
			d.Flaky++
		}
		d.Tasks = append(d.Tasks, t)
	}
	d.Overall = group("", "", d.Tasks)
	for i := 0; i < len(d.Tasks); {
		j := i
		for j < len(d.Tasks) && d.Tasks[j].Agent == d.Tasks[i].Agent && d.Tasks[j].Dataset == d.Tasks[i].Dataset {
			j++
		}
		d.Groups = append(d.Groups, group(d.Tasks[i].Agent, d.Tasks[i].Dataset, d.Tasks[i:j]))
		i = j
	}
	return d
}

// attempts gathers a job's outcomes by agent, dataset and task; the keys' Attempt is 0.
func attempts(job Job) map[Key]*Attempts {
	all := map[Key]*Attempts{}
	of := func(k Key) *Attempts {
		k.Attempt = 0
		if all[k] == nil {
			all[k] = &Attempts{}
		}
		all[k].Total++
		return all[k]
	}
	for _, o := range slices.SortedFunc(slices.Values(job.Results), func(a, b Outcome) int { return a.Key.Compare(b.Key) }) {
		a := of(o.Key)
		a.Cost += o.Cost
		a.DurationSec += o.DurationSec
		a.Digest = cmp.Or(a.Digest, o.TaskDigest)
		if o.Reward != nil {
			a.Rewards = append(a.Rewards, *o.Reward)
		}
		if o.Passed() {
			a.Passed++
		}
		if o.Failed() {
			a.Failed++
		}
		if o.Error != "" {
			a.Errors = append(a.Errors, o.Error)
		}
	}
	for _, k := range job.Skipped {
		of(k)
	}
	return all
}

func change(base, head *Attempts) Change {
	switch {
	case base == nil:
		return New
	case head == nil:
		return Removed
	case base.Digest != "" && head.Digest != "" && base.Digest != head.Digest:
		return Changed
	case len(head.Rewards) == 0 && head.Failed > 0 && len(base.Rewards) > 0:
		return Errored
	case len(base.Rewards) == 0 || len(head.Rewards) == 0:
		return Same
	case base.Passed == len(base.Rewards) && head.Passed == 0:
		return Broken
	case base.Passed == 0 && head.Passed == len(head.Rewards):
		return Fixed
	}
	switch cmp.Compare(head.Mean(), base.Mean()) {
	case -1:
		return Worse
	case 1:
		return Better
	}
	return Same
}

// group sums up the comparable ones of tasks.
func group(agent, dataset string, tasks []TaskDiff) GroupDiff {
	g := GroupDiff{Agent: agent, Dataset: dataset}
	for _, t := range tasks {
		if t.Comparable() {
			g.Tasks++
			g.Base.add(*t.Base)
			g.Head.add(*t.Head)
		}
	}
	for _, l := range []*Level{&g.Base, &g.Head} {
		l.PassRate, l.MeanReward = ratio(l.PassRate, g.Tasks), ratio(l.MeanReward, g.Tasks)
	}
	return g
}

func (l *Level) add(a Attempts) {
	l.PassRate += ratio(float64(a.Passed), len(a.Rewards))
	l.MeanReward += a.Mean()
	l.Cost += a.Cost
	l.DurationSec += a.DurationSec
}
