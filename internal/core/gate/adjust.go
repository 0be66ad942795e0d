package gate

import (
	"hash/fnv"
	"slices"
	"strconv"

	"github.com/org/rollout-action/internal/core/paired"
	"github.com/org/rollout-action/internal/core/signflip"
)

// adjust corrects the p-values of all tests of a verdict for their number; see signflip.Adjust.
//
// A task flips its sign in all tests together, for all of its agents, whether they are about
// passes, rewards, scores, costs or broken tasks, of the whole job or of a group: if nothing
// changed, exchanging what the two jobs got at a task exchanges it for all of them. A test with
// unequal attempts is not symmetric, and its p-value is the larger one of two different
// distributions (see paired.PValue), so it does not flip with the others: its p-value is added to
// theirs, as by Holm. That needs nothing to be known of how the two depend on each other.
//
// If the baseline is several runs, the run that is the job's is drawn for a task instead of a sign,
// for all tests together. A test that has fewer runs of a task than an earlier one, as scores may,
// is added like one with unequal attempts.
func adjust(tests []comparison, alpha float64) (adjusted, levels []float64) {
	numbers := map[paired.TaskName]int{}
	seed := fnv.New64a()
	runs := runsOfTasks{}
	flips := make([]signflip.Test, len(tests))
	for i, t := range tests {
		s := t.Values()
		flips[i] = signflip.Test{P: t.pValue(), Ties: 0.5}
		if !s.Balanced() {
			continue
		}
		if s.AllDiffer() {
			flips[i].Ties = 1
		}
		var labels [][]float64
		if s.Pooled() {
			if !runs.agree(s) {
				continue
			}
			labels, flips[i].Labels = s.Labels(), [][]float64{}
		}
		flips[i].Drops = []float64{}
		for j, d := range s.Drops() {
			at, ok := numbers[s.Names[j]]
			if !ok {
				at = len(numbers)
				numbers[s.Names[j]] = at
			}
			for at >= len(flips[i].Drops) {
				flips[i].Drops = append(flips[i].Drops, 0)
			}
			flips[i].Drops[at] = d
			seed.Write([]byte(direction(d) + strconv.Quote(s.Names[j].Dataset) + strconv.Quote(s.Names[j].Task)))
			if labels != nil {
				flips[i].Labels = append(flips[i].Labels, make([][]float64, at+1-min(at+1, len(flips[i].Labels)))...)
				flips[i].Labels[at] = labels[j]
			}
		}
	}
	return signflip.Adjust(flips, alpha, seed.Sum64())
}

// runsOfTasks holds the runs of a baseline that the tests have of each task.
type runsOfTasks map[paired.TaskName][]int

// agree reports whether a sample has the same runs of each task as the samples before it, and if
// so, adds its own.
func (r runsOfTasks) agree(s paired.Sample) bool {
	for i, n := range s.Names {
		if before, seen := r[n]; seen && !slices.Equal(before, s.Runs[i]) || s.Runs[i][0] < 0 {
			return false
		}
	}
	for i, n := range s.Names {
		r[n] = s.Runs[i]
	}
	return true
}

// direction returns the sign of a drop. Unlike its last digits it is the same on every machine.
func direction(d float64) string {
	switch {
	case d > 0:
		return "-"
	case d < 0:
		return "+"
	}
	return "="
}
