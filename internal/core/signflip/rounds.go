package signflip

import (
	"cmp"
	"math"
	"slices"
)

// Bounds are the looks at a test that is made in rounds, in their order.
type Bounds struct {
	// Alpha is the chance of a false alarm that is spent with each look and the earlier ones. The
	// last one is the level of the whole test.
	Alpha []float64
	// Futility has, for each look but the last, the largest drop with which the test ends, in units
	// of the root of the sum of the tasks' squared drops.
	Futility []float64
}

// Rounds is one of several tests of the same two jobs, whose attempts are made in rounds.
type Rounds struct {
	// Drops are those of Test after each look so far, of all attempts until then.
	Drops [][]float64
	Ties  float64 // of Test
}

// Decision is what a look decides.
type Decision int

// The decisions. Open: further rounds may show more. Proven: one of the tests is significant.
// Futile: further rounds would hardly make one significant, or the last look has not.
const (
	Open Decision = iota
	Proven
	Futile
)

// Sequence is the result of the looks at some tests.
type Sequence struct {
	Decision Decision
	Look     int // the number of the look that decided, or of the last one so far, from 0
	// P are the p-values of the tests at that look, adjusted for their number and for all looks
	// until then. A test is significant if its p-value is at most the look's Alpha. The last look's
	// are comparable with those of a test with one look.
	P []float64
}

// Look decides whether a test of several drops in rounds ends, from the rounds so far. All tests
// must have as many looks, and tasks is the number of all tasks of the plan. The same arguments and
// more rounds give the same decisions about earlier looks, so a test has to be asked after each
// look, and ends as soon as one is not Open.
//
// Each flip changes the signs of a task in all rounds and all tests at once, and goes through the
// same looks, with the bounds for futility. The share of flips that are ever found significant is
// therefore at most the last Alpha, however difficult the tasks are and however much attempts at
// one task go together, if ties count whole. At a look, a flip is significant if its smallest
// p-value is so small that no more than the look's Alpha is spent. It ends as futile if no test has
// a drop above Futility.
//
// Sources: K. K. G. Lan and D. L. DeMets, Biometrika 70 (1983) 659 (spending alpha); S. Pampallona
// and A. A. Tsiatis, J. Stat. Plan. Inference 42 (1994) 19 (futility); for p-values after several
// looks in the order of the looks, A. A. Tsiatis et al., Biometrics 40 (1984) 797.
func Look(tests []Rounds, bounds Bounds, tasks int, seed uint64) Sequence {
	ref := newReference(tasks, len(tests), seed)
	running := make([]bool, ref.flips)
	for i := range running {
		running[i] = true
	}
	looks := len(tests[0].Drops)
	spent := 0.0
	for look := range looks {
		least, futile, own := atLook(ref, tests, look, bounds)
		s := Sequence{Look: look, P: make([]float64, len(tests))}
		for i, p := range own {
			s.P[i] = min(1, spent+least.share(p, running))
		}
		limit := least.quantile(bounds.Alpha[look]-spent, running)
		switch {
		case least.ps[0] <= limit:
			s.Decision = Proven
			return s
		case look == len(bounds.Alpha)-1, futile[0]:
			s.Decision = Futile
			return s
		case look == looks-1:
			return s
		}
		for i, p := range least.ps {
			if running[i] && p <= limit {
				spent += 1 / float64(ref.flips)
			}
			running[i] = running[i] && p > limit && !futile[i]
		}
	}
	return Sequence{}
}

// atLook returns the smallest p-value of each flip at a look, whether all tests are futile in it,
// and the tests' p-values with the observed signs.
func atLook(ref reference, tests []Rounds, look int, bounds Bounds) (least minimum, futile []bool, own []float64) {
	futile = make([]bool, ref.flips)
	for i := range futile {
		futile[i] = look < len(bounds.Futility)
	}
	for _, t := range tests {
		drops := whole(t.Drops[look])
		sums := ref.sums(drops)
		if look < len(bounds.Futility) {
			squares := 0.0
			for _, d := range drops {
				squares += float64(d) * float64(d)
			}
			for i, most := 0, bounds.Futility[look]*math.Sqrt(squares); i < len(sums); i++ {
				futile[i] = futile[i] && float64(sums[i]) <= most
			}
		}
		ps := pValues(sums, t.Ties)
		own = append(own, ps[0])
		least.add(ps, Test{Ties: t.Ties})
	}
	return least, futile, own
}

// share returns the share of all flips that are running and whose smallest p-value is below p, and
// the part that counts of those with p itself.
func (m *minimum) share(p float64, running []bool) float64 {
	count := 0.0
	for i, least := range m.ps {
		switch {
		case !running[i]:
		case least < p:
			count++
		case least == p:
			count += m.ties[i]
		}
	}
	return count / float64(len(m.ps))
}

// quantile returns the largest p-value that is significant if the running flips may spend alpha; -1
// if none is.
func (m *minimum) quantile(alpha float64, running []bool) float64 {
	type flip struct{ p, ties float64 }
	var small []flip
	for i, p := range m.ps {
		if running[i] && p <= 4*alpha { // more would be above alpha
			small = append(small, flip{p, m.ties[i]})
		}
	}
	slices.SortFunc(small, func(a, b flip) int { return cmp.Compare(a.p, b.p) })
	below, limit, all := 0.0, -1.0, float64(len(m.ps))
	for start := 0; start < len(small); {
		end, counted := start, 0.0
		for ; end < len(small) && small[end].p == small[start].p; end++ {
			counted += small[end].ties / all
		}
		if below+counted > alpha*rounding {
			break
		}
		limit = small[start].p
		below += float64(end-start) / all
		start = end
	}
	return limit
}
