package signflip

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
)

const (
	// maxListed is the number of labellings up to which all are tried.
	maxListed = 1 << maxExact
	// maxLabelDenominator is the largest denominator of labels that are added as whole numbers of
	// it: means over up to ten runs of a few attempts have one.
	maxLabelDenominator = 27720
	// maxDrawn bounds the labels that are drawn; each takes a random number.
	maxDrawn = 10_000_000
)

// newLabelling returns labellings of tasks with so many labels each, of which tests add up the
// drops so many times. Where all tasks have two, they are the flips of newReference.
func newLabelling(ways []int, tests int, seed uint64) reference {
	if !slices.ContainsFunc(ways, func(n int) bool { return n != 2 }) {
		return newReference(len(ways), tests, seed)
	}
	all := 1
	for _, n := range ways {
		if all *= n; all > maxListed {
			return reference{flips: max(leastFlips, min(mostFlips, maxDrawn/(len(ways)*max(1, tests)))), seed: seed, ways: ways}
		}
	}
	return reference{flips: all, exact: true, ways: ways}
}

// labelled returns the sum of the tasks' drops under each labelling. labels are by task, the
// observed one first.
func (r reference) labelled(labels [][]float64) []int64 {
	whole := Whole(labels)
	if r.ways == nil {
		drops := make([]int64, len(whole))
		for i, l := range whole {
			drops[i] = l[0]
		}
		return r.sums(drops)
	}
	out := make([]int64, r.flips)
	every := 1
	for task, of := range whole {
		n := r.ways[task]
		switch {
		case !slices.ContainsFunc(of, func(d int64) bool { return d != 0 }):
		case r.exact:
			for i := range out {
				out[i] += of[i/every%n]
			}
		default:
			source := rand.NewPCG(r.seed, uint64(task))
			out[0] += of[0]
			for i := 1; i < len(out); i++ {
				label, _ := bits.Mul64(source.Uint64(), uint64(n))
				out[i] += of[label]
			}
		}
		every *= n
	}
	return out
}

// Whole returns labels as whole numbers of one step, so that equal sums stay equal; see whole.
// Where each task has two labels of either sign, it returns what whole does.
func Whole(labels [][]float64) [][]int64 {
	size, most := 0.0, float64(maxDenominator)
	for _, l := range labels {
		largest := 0.0
		for _, d := range l {
			largest = max(largest, math.Abs(d))
		}
		size += largest
		if len(l) != 2 {
			most = maxLabelDenominator
		}
	}
	all := inSteps(slices.Concat(labels...), size, most)
	out := make([][]int64, len(labels))
	for i, l := range labels {
		out[i], all = all[:len(l)], all[len(l):]
	}
	return out
}

// PValue returns the probability that a labelling drawn at random has a larger sum of drops than
// the observed one, and the probability of an equal sum. labels are by task, the observed one
// first.
func PValue(labels [][]float64, seed uint64) (above, equal float64) {
	ways := make([]int, len(labels))
	for i, l := range labels {
		ways[i] = len(l)
	}
	sums := newLabelling(ways, 1, seed).labelled(labels)
	for _, s := range sums {
		switch {
		case s > sums[0]:
			above++
		case s == sums[0]:
			equal++
		}
	}
	return above / float64(len(sums)), equal / float64(len(sums))
}
