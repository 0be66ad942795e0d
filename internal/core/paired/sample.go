package paired

import (
	"cmp"
	"math"
	"slices"

	"github.com/org/rollout-action/internal/core/result"
)

// Unit holds the values of the attempts of one agent at one task on both sides: rewards, or 1 for
// passed and 0 for not.
type Unit struct {
	Base, Head []float64
	*ofRuns    // nil unless the baseline is several runs, whose values Base has together
}

// ofRuns holds the values by run, those of the job first, and the drop if each of the runs were the
// job's. exchanged: Base is the job.
type ofRuns struct {
	runs      [][]float64
	labels    []float64
	exchanged bool
}

// Drop returns how far the mean fell. A rise is negative.
func (u Unit) Drop() float64 {
	if u.ofRuns != nil {
		return u.labels[0]
	}
	base, head := result.Mean(u.Base), result.Mean(u.Head)
	if math.Abs(base-head) <= 1e-12*max(math.Abs(base), math.Abs(head)) {
		return 0 // the same rewards, added in another order
	}
	return base - head
}

// balanced reports whether both sides have as many attempts, or all values are equal, so that their
// number does not matter.
func (u Unit) balanced() bool { return u.ofRuns != nil || len(u.Base) == len(u.Head) || u.constant() }

func (u Unit) constant() bool {
	if u.ofRuns != nil {
		return !slices.ContainsFunc(u.labels, func(d float64) bool { return d != 0 })
	}
	differs := func(v float64) bool { return v != u.Base[0] }
	return !slices.ContainsFunc(u.Base, differs) && !slices.ContainsFunc(u.Head, differs)
}

// Task holds the units of all agents for one task. Tasks are independent of each other; attempts at
// one task are not, and agents may not be.
type Task []Unit

// Drop returns the sum of the units' drops.
func (t Task) Drop() float64 {
	sum := 0.0
	for _, u := range t {
		sum += u.Drop()
	}
	return sum
}

// constant reports whether no unit's values vary.
func (t Task) constant() bool {
	return !slices.ContainsFunc(t, func(u Unit) bool { return !u.constant() })
}

func (t Task) balanced() bool {
	return !slices.ContainsFunc(t, func(u Unit) bool { return !u.balanced() })
}

// TaskName identifies a task, whichever agents tried it.
type TaskName struct{ Dataset, Task string }

// Compare orders names by dataset and task.
func (n TaskName) Compare(o TaskName) int {
	return cmp.Or(cmp.Compare(n.Dataset, o.Dataset), cmp.Compare(n.Task, o.Task))
}

// Sample holds the values that a drop is tested on. Every unit counts once, however many attempts
// it has.
type Sample struct {
	Tasks []Task
	Names []TaskName // of tasks
	Runs  [][]int    // of a baseline of several: the numbers of those that each task has; else nil
	Units int
	// The values were divided by scale, so that no sum overflows and none is lost below 1e-12.
	Scale     float64
	Low, High float64 // the smallest and the largest value
	Binary    bool    // every value is 0 or 1
}

// Balanced reports whether every task is balanced.
func (s Sample) Balanced() bool {
	return !slices.ContainsFunc(s.Tasks, func(t Task) bool { return !t.balanced() })
}

// Passes returns 1 for each attempt that passed and 0 for each that did not. Callers must not write
// to the values, nor to those of Rewards.
func Passes(a *result.Attempts) []float64 {
	if !slices.ContainsFunc(a.Scores(), func(r float64) bool { return r != 0 && r != 1 }) {
		return a.Scores()
	}
	values := make([]float64, len(a.Scores()))
	for i, r := range a.Scores() {
		if r == 1 {
			values[i] = 1
		}
	}
	return values
}

// Rewards returns the attempts' rewards.
func Rewards(a *result.Attempts) []float64 { return a.Scores() }

// Pooled reports whether the baseline of comparable tasks is several runs.
func Pooled(tasks []result.TaskDiff) bool {
	return slices.ContainsFunc(tasks, func(t result.TaskDiff) bool { return t.Base.Runs() != nil || t.Head.Runs() != nil })
}

// SampleOf returns the sample of comparable tasks, which must be sorted by agent, dataset and task.
func SampleOf(tasks []result.TaskDiff, values func(*result.Attempts) []float64) Sample {
	if Pooled(tasks) {
		return pooledSample(tasks, values).inRange()
	}
	s := Sample{Scale: 1, Units: len(tasks)}
	at := map[TaskName]int{}
	var sizes []int // of s.Tasks
	for _, t := range tasks {
		n := TaskName{t.Dataset, t.Task}
		i, ok := at[n]
		if !ok {
			i = len(sizes)
			at[n], s.Names, sizes = i, append(s.Names, n), append(sizes, 0)
		}
		sizes[i]++
	}
	units := make([]Unit, len(tasks))
	s.Tasks = make([]Task, len(sizes))
	for i, n := range sizes {
		s.Tasks[i], units = units[:0:n], units[n:]
	}
	for _, t := range tasks {
		i := at[TaskName{t.Dataset, t.Task}]
		s.Tasks[i] = append(s.Tasks[i], Unit{Base: values(t.Base), Head: values(t.Head)})
	}
	return s.inRange()
}

// inRange returns the sample with values whose sums neither overflow nor vanish, and their range.
func (s Sample) inRange() Sample {
	largest := 0.0
	s.each(func(v float64) { largest = max(largest, math.Abs(v)) })
	if largest > 1e9 || largest > 0 && largest < 1e-6 {
		s = s.rescaled(largest)
	}
	return s.withRange()
}

// rescaled returns the sample with all values divided by scale. It copies them, because they belong
// to the jobs.
func (s Sample) rescaled(scale float64) Sample {
	divided := func(values []float64) []float64 {
		out := make([]float64, len(values))
		for i, v := range values {
			out[i] = v / scale
		}
		return out
	}
	for _, t := range s.Tasks {
		for i, u := range t {
			t[i] = Unit{Base: divided(u.Base), Head: divided(u.Head)}
			if u.ofRuns != nil {
				t[i].ofRuns = &ofRuns{exchanged: u.exchanged}
				for _, run := range u.runs {
					t[i].runs = append(t[i].runs, divided(run))
				}
				t[i].labels = t[i].meanLabels()
			}
		}
	}
	s.Scale = scale
	return s
}

// withRange returns the sample with low, high and binary set from its values.
func (s Sample) withRange() Sample {
	s.Low, s.High, s.Binary = math.Inf(1), math.Inf(-1), true
	s.each(func(v float64) {
		s.Low, s.High = min(s.Low, v), max(s.High, v)
		s.Binary = s.Binary && (v == 0 || v == 1)
	})
	if s.Units == 0 {
		s.Low, s.High = 0, 0
	}
	return s
}

func (s Sample) each(f func(float64)) {
	for _, t := range s.Tasks {
		for _, u := range t {
			for _, v := range u.Base {
				f(v)
			}
			for _, v := range u.Head {
				f(v)
			}
		}
	}
}

// Drops returns the tasks' drops, scaled so that their mean is the sample's drop: a task that three
// of four agents tried has three quarters of the weight of one that all four tried.
func (s Sample) Drops() []float64 {
	out := make([]float64, len(s.Tasks))
	for i, t := range s.Tasks {
		out[i] = t.Drop() * float64(len(s.Tasks)) / float64(s.Units)
	}
	return out
}

// Span returns how far a value can fall: 1 for passes, the range of the values for rewards.
func (s Sample) Span() float64 {
	if s.Binary {
		return 1
	}
	return s.High - s.Low
}

// meanAttempts returns the mean number of attempts of a unit on a side. It is the harmonic mean,
// because variance goes with 1/n.
func (s Sample) meanAttempts() float64 {
	inverse := 0.0
	for _, t := range s.Tasks {
		for _, u := range t {
			inverse += 0.5/float64(len(u.Base)) + 0.5/float64(len(u.Head))
		}
	}
	return float64(s.Units) / inverse
}

// MatchedPairs reports whether the sample is of one agent with one attempt on each side that passed
// or not, as McNemar's test requires.
func (s Sample) MatchedPairs() bool {
	for _, t := range s.Tasks {
		if len(t) != 1 || len(t[0].Base) != 1 || len(t[0].Head) != 1 {
			return false
		}
	}
	return s.Binary
}

// Variance returns the estimated variance of the population of which values are a sample; 0 for
// fewer than two values.
func Variance(values []float64) float64 {
	if len(values) < 2 {
		return 0
	}
	m, sum := result.Mean(values), 0.0
	for _, v := range values {
		sum += (v - m) * (v - m)
	}
	return sum / float64(len(values)-1)
}

// Values returns the sample, for types that embed it.
func (s Sample) Values() Sample { return s }
