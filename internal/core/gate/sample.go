package gate

import (
	"math"
	"slices"

	"github.com/org/rollout-action/internal/core/result"
)

// unit holds the values of the attempts of one agent at one task on both sides: rewards, or 1 for
// passed and 0 for not.
type unit struct{ base, head []float64 }

// drop returns how far the mean fell. A rise is negative.
func (u unit) drop() float64 {
	base, head := result.Mean(u.base), result.Mean(u.head)
	if math.Abs(base-head) <= 1e-12*max(math.Abs(base), math.Abs(head)) {
		return 0 // the same rewards, added in another order
	}
	return base - head
}

// balanced reports whether both sides have as many attempts, or all values are equal, so that their
// number does not matter.
func (u unit) balanced() bool { return len(u.base) == len(u.head) || u.constant() }

func (u unit) constant() bool {
	differs := func(v float64) bool { return v != u.base[0] }
	return !slices.ContainsFunc(u.base, differs) && !slices.ContainsFunc(u.head, differs)
}

// task holds the units of all agents for one task. Tasks are independent of each other; attempts at
// one task are not, and agents may not be.
type task []unit

// drop returns the sum of the units' drops.
func (t task) drop() float64 {
	sum := 0.0
	for _, u := range t {
		sum += u.drop()
	}
	return sum
}

// constant reports whether no unit's values vary.
func (t task) constant() bool {
	return !slices.ContainsFunc(t, func(u unit) bool { return !u.constant() })
}

func (t task) balanced() bool {
	return !slices.ContainsFunc(t, func(u unit) bool { return !u.balanced() })
}

// sample holds the values that a drop is tested on. Every unit counts once, however many attempts
// it has.
type sample struct {
	tasks []task
	units int
	// The values were divided by scale, so that no sum overflows and none is lost below 1e-12.
	scale     float64
	low, high float64 // the smallest and the largest value
	binary    bool    // every value is 0 or 1
}

// balanced reports whether every task is balanced.
func (s sample) balanced() bool {
	return !slices.ContainsFunc(s.tasks, func(t task) bool { return !t.balanced() })
}

// passes returns 1 for each attempt that passed and 0 for each that did not.
func passes(a *result.Attempts) []float64 {
	values := make([]float64, len(a.Scores))
	for i, r := range a.Scores {
		if r == 1 {
			values[i] = 1
		}
	}
	return values
}

// rewards returns the attempts' rewards.
func rewards(a *result.Attempts) []float64 { return a.Scores }

// sampleOf returns the sample of comparable tasks, which must be sorted by agent, dataset and task.
func sampleOf(tasks []result.TaskDiff, values func(*result.Attempts) []float64) sample {
	s := sample{scale: 1}
	largest := 0.0
	type name struct{ dataset, task string }
	at := map[name]int{}
	for _, t := range tasks {
		u := unit{base: values(t.Base), head: values(t.Head)}
		for _, side := range [][]float64{u.base, u.head} {
			for _, v := range side {
				largest = max(largest, math.Abs(v))
			}
		}
		n := name{t.Dataset, t.Task}
		if i, ok := at[n]; ok {
			s.tasks[i] = append(s.tasks[i], u)
		} else {
			at[n] = len(s.tasks)
			s.tasks = append(s.tasks, task{u})
		}
		s.units++
	}
	if largest > 1e9 || largest > 0 && largest < 1e-6 {
		s = s.rescaled(largest)
	}
	return s.withRange()
}

// rescaled returns the sample with all values divided by scale. It copies them, because they belong
// to the jobs.
func (s sample) rescaled(scale float64) sample {
	divided := func(values []float64) []float64 {
		out := make([]float64, len(values))
		for i, v := range values {
			out[i] = v / scale
		}
		return out
	}
	for _, t := range s.tasks {
		for i, u := range t {
			t[i] = unit{base: divided(u.base), head: divided(u.head)}
		}
	}
	s.scale = scale
	return s
}

// withRange returns the sample with low, high and binary set from its values.
func (s sample) withRange() sample {
	s.low, s.high, s.binary = math.Inf(1), math.Inf(-1), true
	s.each(func(v float64) {
		s.low, s.high = min(s.low, v), max(s.high, v)
		s.binary = s.binary && (v == 0 || v == 1)
	})
	if s.units == 0 {
		s.low, s.high = 0, 0
	}
	return s
}

func (s sample) each(f func(float64)) {
	for _, t := range s.tasks {
		for _, u := range t {
			for _, v := range u.base {
				f(v)
			}
			for _, v := range u.head {
				f(v)
			}
		}
	}
}

// drops returns the tasks' drops, scaled so that their mean is the sample's drop: a task that three
// of four agents tried has three quarters of the weight of one that all four tried.
func (s sample) drops() []float64 {
	out := make([]float64, len(s.tasks))
	for i, t := range s.tasks {
		out[i] = t.drop() * float64(len(s.tasks)) / float64(s.units)
	}
	return out
}

// span returns how far a value can fall: 1 for passes, the range of the values for rewards.
func (s sample) span() float64 {
	if s.binary {
		return 1
	}
	return s.high - s.low
}

// meanAttempts returns the mean number of attempts of a unit on a side. It is the harmonic mean,
// because variance goes with 1/n.
func (s sample) meanAttempts() float64 {
	inverse := 0.0
	for _, t := range s.tasks {
		for _, u := range t {
			inverse += 0.5/float64(len(u.base)) + 0.5/float64(len(u.head))
		}
	}
	return float64(s.units) / inverse
}

// matchedPairs reports whether the sample is of one agent with one attempt on each side that passed
// or not, as McNemar's test requires.
func (s sample) matchedPairs() bool {
	for _, t := range s.tasks {
		if len(t) != 1 || len(t[0].base) != 1 || len(t[0].head) != 1 {
			return false
		}
	}
	return s.binary
}

// variance returns the estimated variance of the population of which values are a sample; 0 for
// fewer than two values.
func variance(values []float64) float64 {
	if len(values) < 2 {
		return 0
	}
	m, sum := result.Mean(values), 0.0
	for _, v := range values {
		sum += (v - m) * (v - m)
	}
	return sum / float64(len(values)-1)
}
