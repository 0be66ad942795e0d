package signflip

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
)

const (
	// maxExact is the number of tasks up to which all 2^n flips are tried.
	maxExact = 16
	// mostFlips and leastFlips are the numbers of random flips of more tasks: fewer if there is
	// much to add up. They include the observed signs, so that the test keeps its level with any
	// number of flips.
	mostFlips, leastFlips = 100_000, 10_000
	// maxWork bounds the random numbers that a reference draws.
	maxWork = 40_000_000
	// maxDenominator is the largest denominator of drops that are added as whole numbers of it.
	maxDenominator = 420
	// fineSteps is the number of steps to which the largest sum of other drops is rounded.
	fineSteps = 1 << 43
	// maxCounted is the number of different sums up to which they are counted instead of sorted.
	maxCounted = 1 << 16
)

// reference is a set of flips of the tasks' signs. The first flip changes nothing: it stands for
// the observed drops.
type reference struct {
	flips int
	exact bool // the flips are all that there are
	seed  uint64
	ways  []int // how many labels each task has; nil: each has a sign
}

// newReference returns flips for so many tasks, of which tests add up the drops so many times.
func newReference(tasks, tests int, seed uint64) reference {
	if tasks <= maxExact {
		return reference{flips: 1 << tasks, exact: true}
	}
	words := (tasks + wordBits - 1) / wordBits
	return reference{flips: max(leastFlips, min(mostFlips, maxWork/(words*max(1, tests)))), seed: seed}
}

const (
	wordBits = 64
	byteBits = 8
)

// sums returns, for each flip, the sum of whole drops with flipped signs. Drops are by task.
func (r reference) sums(drops []int64) []int64 {
	out := make([]int64, r.flips)
	for start := 0; start < len(drops); start += wordBits {
		tables := tablesOf(drops[start:min(start+wordBits, len(drops))])
		if len(tables) == 0 {
			continue
		}
		source := rand.NewPCG(r.seed, uint64(start))
		for i := range out {
			var word uint64
			switch {
			case r.exact:
				word = uint64(i)
			case i > 0:
				word = source.Uint64()
			}
			sum := int64(0)
			for t := range tables {
				sum += tables[t].sums[byte(word>>tables[t].shift)]
			}
			out[i] += sum
		}
	}
	return out
}

// table holds the sums of eight tasks' drops for all flips of these tasks.
type table struct {
	shift int // of the tasks' bits in a word
	sums  [1 << byteBits]int64
}

// tablesOf returns the tables of up to 64 tasks, without those in which all drops are 0.
func tablesOf(drops []int64) []table {
	var out []table
	for shift := 0; shift < len(drops); shift += byteBits {
		part := drops[shift:min(shift+byteBits, len(drops))]
		if !slices.ContainsFunc(part, func(d int64) bool { return d != 0 }) {
			continue
		}
		t := table{shift: shift}
		for _, d := range part {
			t.sums[0] += d
		}
		for v := 1; v < len(t.sums); v++ {
			flipped := int64(0)
			if bit := bits.TrailingZeros(uint(v)); bit < len(part) {
				flipped = part[bit]
			}
			t.sums[v] = t.sums[v&(v-1)] - 2*flipped
		}
		out = append(out, t)
	}
	return out
}

// whole returns drops as whole numbers of one step. The step divides all of them if they have a
// small common denominator, as shares of few attempts have; then equal sums stay equal. Otherwise
// it is so small that only equal sums are taken for equal.
func whole(drops []float64) []int64 {
	size := 0.0
	for _, d := range drops {
		size += math.Abs(d)
	}
	return inSteps(drops, size, maxDenominator)
}

// inSteps returns drops, of which the largest sum is size, as whole numbers of one step. The step
// divides all of them if they have a common denominator of at most most.
func inSteps(drops []float64, size, most float64) []int64 {
	out := make([]int64, len(drops))
	if size == 0 || math.IsInf(size, 0) || math.IsNaN(size) {
		return out
	}
	steps := denominator(drops, size, most)
	if steps == 0 {
		steps = fineSteps / size
	}
	for i, d := range drops {
		out[i] = int64(math.Round(d * steps))
	}
	return out
}

// denominator returns the smallest common denominator of drops; 0 if it is above most.
func denominator(drops []float64, size, most float64) float64 {
	const rounding = 1e-9
	for q := 1.0; q <= most && q*size < fineSteps; q++ {
		if !slices.ContainsFunc(drops, func(d float64) bool { return math.Abs(d*q-math.Round(d*q)) > rounding }) {
			return q
		}
	}
	return 0
}

// pValues returns the p-value of each flip: the share of flips with a larger sum, and ties times
// the share of those with the same one.
func pValues(sums []int64, ties float64) []float64 {
	least, most := slices.Min(sums), slices.Max(sums)
	if most-least < maxCounted {
		return countedPValues(sums, least, most, ties)
	}
	const index = 17 // bits of the number of a flip
	order := make([]uint64, len(sums))
	for i, s := range sums {
		order[i] = uint64(s-least)<<index | uint64(i)
	}
	slices.Sort(order)
	ps, all := make([]float64, len(sums)), float64(len(sums))
	for end := len(order); end > 0; {
		start := end - 1
		for start > 0 && order[start-1]>>index == order[start]>>index {
			start--
		}
		p := (float64(len(order)-end) + ties*float64(end-start)) / all
		for _, o := range order[start:end] {
			ps[o&(1<<index-1)] = p
		}
		end = start
	}
	return ps
}

// countedPValues returns pValues of sums between least and most by counting equal ones.
func countedPValues(sums []int64, least, most int64, ties float64) []float64 {
	counts := make([]int, most-least+1)
	for _, s := range sums {
		counts[s-least]++
	}
	tails, above, all := make([]float64, len(counts)), 0, float64(len(sums))
	for i := len(counts) - 1; i >= 0; i-- {
		tails[i] = (float64(above) + ties*float64(counts[i])) / all
		above += counts[i]
	}
	ps := make([]float64, len(sums))
	for i, s := range sums {
		ps[i] = tails[s-least]
	}
	return ps
}
