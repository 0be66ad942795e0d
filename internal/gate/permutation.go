package gate

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// How a drop was told from luck. The first two are exact.
const (
	methodMcNemar = "McNemar's exact test"
	methodExact   = "exact paired permutation test"
	methodGrid    = "paired permutation test, rewards rounded to a grid"
	methodNormal  = "paired permutation test, normal approximation"
)

// What a test may cost; beyond, it is approximated.
const (
	maxCells     = 50_000_000 // additions of a convolution
	maxDecimals  = 4          // of rewards that are whole numbers of a lattice
	maxLattice   = 1_000_000  // points of a lattice per unit of reward
	maxEnumerate = 18         // tasks whose 2^n sign changes are all tried
	maxReassign  = 12         // attempts at a task, both sides together, whose reassignments are all listed
	maxPoints    = 4096       // values that a task's drop may have; with more it counts as normal
)

// tail is how likely a sum is to be above the one that was seen, and to be equal to it.
type tail struct{ above, equal float64 }

func (t tail) atLeast() float64 { return min(1, t.above+t.equal) }
func (t tail) mid() float64     { return min(1, t.above+t.equal/2) }

// pValue is the chance that a drop as large as the sample's, or larger, comes about although nothing changed. Then the two
// runs could as well be the other way round: each task's drop keeps its size and has either sign, so that the distribution of
// their sum is that of all sign changes. This holds for every number of tasks and any rewards, and for attempts at one task
// that succeed and fail together within a run. Tasks without a difference add nothing.
//
// Of the sums that are equal to the one that was seen, half count (mid-p). Counting all of them makes the test fail far less
// often than it may, and so blind on small suites; with half of them it stays at the level (the largest size of McNemar's
// mid-p test over all flip rates and 5 to 200 tasks is 0.0501 at 0.05, and TestMidP computes it).
//
// A task with more attempts on one side than on the other is not symmetric. Sign changes of such tasks go wrong where rewards are
// skewed and attempts independent; reassigning the attempts of a task to the two sides goes wrong where attempts of one run
// resemble each other. If there is such a task, p is the larger of the two, each without mid-p: with it the larger one reaches
// 6.8 % where 5 % are meant, without it 5.2 % (see TestUnequalAttempts).
//
// Sources: R. A. Fisher, The Design of Experiments (1935), §21; E. J. G. Pitman, Suppl. J. R. Statist. Soc. 4 (1937) 119;
// Q. McNemar, Psychometrika 12 (1947) 153; M. Pagano and D. Tritchler, J. Am. Statist. Assoc. 78 (1983) 435 (convolution in whole
// numbers); H. O. Lancaster, J. Am. Statist. Assoc. 56 (1961) 223 and M. W. Fagerland et al., BMC Med. Res. Methodol. 13
// (2013) 91 (mid-p).
func pValue(s sample) (p float64, method string) {
	if s.balanced() {
		t, method := distribution(s, false)
		return t.mid(), method
	}
	flipped, method := distribution(s, false)
	reassigned, other := distribution(s, true)
	if reassigned.atLeast() > flipped.atLeast() {
		flipped, method = reassigned, other
	}
	return flipped.atLeast(), method
}

// distribution is the tail of the sum of the tasks' drops when each has either sign or, if reassign is set, when the attempts
// of tasks that are not balanced are reassigned to the sides, every assignment being as likely.
func distribution(s sample, reassign bool) (tail, string) {
	exact := methodExact
	if s.single() {
		exact = methodMcNemar
	}
	if t, ok := signTest(s, reassign); ok {
		return t, exact
	}
	if t, ok := onLattice(s, reassign); ok {
		return t, exact
	}
	if t, ok := enumerate(s, reassign); ok {
		return t, exact
	}
	if t, ok := normal(s, reassign); ok {
		return t, methodNormal
	}
	return onGrid(s, reassign), methodGrid
}

// signTest is the distribution where all drops are of one size: a binomial count.
func signTest(s sample, reassign bool) (tail, bool) {
	down, up, size := 0, 0, 0.0
	for _, t := range s.tasks {
		d := t.drop()
		switch {
		case reassign && !t.balanced(), d != 0 && size != 0 && math.Abs(d) != size:
			return tail{}, false
		case d > 0:
			down, size = down+1, d
		case d < 0:
			up, size = up+1, -d
		}
	}
	more := atLeast(down+up, down+1, 0.5)
	return tail{above: more, equal: atLeast(down+up, down, 0.5) - more}, true
}

// point is one value that a task's drop can have, in whole numbers, and how likely it is.
type point struct {
	drop   int64
	chance float64
}

// onLattice is the distribution in whole numbers, if all means of the sample are, and they are few enough.
func onLattice(s sample, reassign bool) (tail, bool) {
	attempts, decimals, ok := latticeOf(s, reassign)
	if !ok {
		return tail{}, false
	}
	sum := convolution{}
	for _, t := range s.tasks {
		drop, points := t.points(attempts, decimals, s.binary, reassign)
		sum.add(drop, points)
	}
	if sum.cost() > maxCells {
		return tail{}, false
	}
	return sum.tail(), true
}

// convolution is a sum of independent drops.
type convolution struct {
	tasks    [][]point // each begins at 0
	observed int64     // the sum that was seen, when the least that there can be is 0
	step     int64     // divides every drop
}

// add adds a task with the drop that was seen. Its points may be in any order, and are changed.
func (c *convolution) add(drop int64, points []point) {
	if len(points) == 1 {
		return // it can be nothing else
	}
	least := slices.MinFunc(points, func(a, b point) int { return cmp.Compare(a.drop, b.drop) }).drop
	for i := range points {
		points[i].drop -= least
		c.step = gcd(c.step, points[i].drop)
	}
	c.observed += drop - least
	c.tasks = append(c.tasks, points)
}

func largestDrop(points []point) int64 {
	most := int64(0)
	for _, p := range points {
		most = max(most, p.drop)
	}
	return most
}

// cost is how many additions the sum takes.
func (c *convolution) cost() int64 {
	reach, cost := int64(0), int64(0)
	for _, points := range c.tasks {
		reach += largestDrop(points) / c.step
		cost += (reach + 1) * int64(len(points))
		if cost > maxCells {
			break
		}
	}
	return cost
}

// distribution is how likely each sum is, in multiples of step from 0.
func (c *convolution) distribution() []float64 {
	reach := int64(0)
	for _, points := range c.tasks {
		reach += largestDrop(points) / c.step
	}
	now, next := make([]float64, reach+1), make([]float64, reach+1)
	now[0] = 1
	filled := int64(0)
	for _, points := range c.tasks {
		grown := filled + largestDrop(points)/c.step
		clear(next[:grown+1])
		for _, p := range points {
			by := p.drop / c.step
			for i, chance := range now[:filled+1] {
				next[int64(i)+by] += chance * p.chance
			}
		}
		filled = grown
		now, next = next, now
	}
	return now
}

func (c *convolution) tail() tail {
	if len(c.tasks) == 0 {
		return tail{equal: 1}
	}
	at := c.observed / c.step
	var t tail
	for i, chance := range c.distribution() {
		switch {
		case int64(i) > at:
			t.above += chance
		case int64(i) == at:
			t.equal = chance
		}
	}
	return t
}

// latticeOf finds the scale at which every mean is a whole number: attempts is a common multiple of the numbers of
// attempts, decimals is the power of ten of the rewards' decimals.
func latticeOf(s sample, reassign bool) (attempts, decimals int64, ok bool) {
	attempts, decimals = 1, 1
	for _, t := range s.tasks {
		for _, u := range t {
			for _, n := range []int{len(u.base), len(u.head)} {
				attempts = attempts / gcd(attempts, int64(n)) * int64(n)
				if attempts > maxLattice {
					return 0, 0, false
				}
			}
		}
	}
	if s.scale != 1 || math.Abs(s.low) > maxLattice || math.Abs(s.high) > maxLattice {
		return 0, 0, false
	}
	if s.binary {
		return attempts, 1, true
	}
	if reassign && slices.ContainsFunc(s.tasks, func(t task) bool { return t.large() }) {
		return 0, 0, false
	}
	for range maxDecimals + 1 {
		whole := true
		s.each(func(v float64) {
			scaled := v * float64(decimals)
			whole = whole && math.Abs(scaled-math.Round(scaled)) < 1e-9
		})
		if whole {
			return attempts, decimals, attempts*decimals <= maxLattice
		}
		decimals *= 10
	}
	return 0, 0, false
}

// large: it has too many attempts to list all ways to reassign them.
func (t task) large() bool {
	return slices.ContainsFunc(t, func(u unit) bool { return !u.balanced() && len(u.base)+len(u.head) > maxReassign })
}

// points is a task's drop and what else it could have been.
func (t task) points(attempts, decimals int64, binary, reassign bool) (drop int64, points []point) {
	reassign = reassign && !t.balanced()
	points = []point{{0, 1}}
	for _, u := range t {
		base, head := wholes(u.base, decimals), wholes(u.head, decimals)
		perBase, perHead := attempts/int64(len(base)), attempts/int64(len(head))
		drop += total(base)*perBase - total(head)*perHead
		if reassign {
			points = combine(points, reassigned(base, head, perBase, perHead, binary))
		}
	}
	if reassign {
		return drop, points
	}
	return drop, eitherSign(drop)
}

func eitherSign(drop int64) []point {
	if drop == 0 {
		return []point{{0, 1}}
	}
	return []point{{drop, 0.5}, {-drop, 0.5}}
}

// reassigned are the drops of all ways to assign a unit's attempts to two sides of their sizes. Of attempts that pass or not,
// a hypergeometric number falls to one side.
func reassigned(base, head []int64, perBase, perHead int64, binary bool) []point {
	if !binary {
		var parts []part
		for _, v := range slices.Concat(base, head) {
			parts = append(parts, part{base: v * perBase, head: -v * perHead})
		}
		return assignments(parts, len(head))
	}
	var points []point
	passed, all, side := int(total(base)+total(head)), len(base)+len(head), len(head)
	for x := max(0, side-(all-passed)); x <= min(side, passed); x++ {
		chance := math.Exp(logChoose(passed, x) + logChoose(all-passed, side-x) - logChoose(all, side))
		points = append(points, point{int64(passed-x)*perBase - int64(x)*perHead, chance})
	}
	return points
}

// combine is the sum of two independent drops.
func combine(a, b []point) []point {
	sums := map[int64]float64{}
	for _, x := range a {
		for _, y := range b {
			sums[x.drop+y.drop] += x.chance * y.chance
		}
	}
	var out []point
	for _, drop := range sortedKeys(sums) {
		out = append(out, point{drop, sums[drop]})
	}
	return out
}

// enumerate tries all sign changes, each differing from the last in one sign (Gray code).
func enumerate(s sample, reassign bool) (tail, bool) {
	if reassign && !s.balanced() {
		return tail{}, false
	}
	var signed []float64
	sum, size := 0.0, 0.0
	for _, t := range s.tasks {
		if d := t.drop(); d != 0 {
			signed = append(signed, d)
			sum += d
			size += math.Abs(d)
		}
	}
	if len(signed) > maxEnumerate {
		return tail{}, false
	}
	observed, slack := sum, size*1e-12
	above, equal := 0, 1
	for i := uint64(1); i < 1<<len(signed); i++ {
		bit := bits.TrailingZeros64(i)
		sum -= 2 * signed[bit]
		signed[bit] = -signed[bit]
		switch {
		case sum > observed+slack:
			above++
		case sum >= observed-slack:
			equal++
		}
	}
	all := float64(uint64(1) << len(signed))
	return tail{above: float64(above) / all, equal: float64(equal) / all}, true
}

// normal is the distribution of so many drops of similar size that their sum is as good as normal: the error is of the order of the
// largest one's share of the variance.
func normal(s sample, reassign bool) (tail, bool) {
	sum, variance, largest := 0.0, 0.0, 0.0
	for _, t := range s.tasks {
		v := t.variance(reassign)
		sum += t.drop()
		variance += v
		largest = max(largest, v)
	}
	if variance == 0 || largest > variance/1000 {
		return tail{}, false
	}
	return tail{above: 0.5 * math.Erfc(sum/math.Sqrt(2*variance))}, true
}

// variance is that of a task's drop if nothing changed. Source for attempts that are reassigned: W. G. Cochran, Sampling
// Techniques (3rd ed. 1977), §2.5 (drawing without replacement).
func (t task) variance(reassign bool) float64 {
	if !reassign || t.balanced() {
		return t.drop() * t.drop()
	}
	v := 0.0
	for _, u := range t {
		v += variance(slices.Concat(u.base, u.head)) * (1/float64(len(u.base)) + 1/float64(len(u.head)))
	}
	return v
}

// onGrid is the distribution of drops that are rounded to as fine a grid as the budget allows. The sum is off by about the square
// root of the number of tasks, in steps of the grid, of which its standard deviation has many times more. It has no floor, as random
// draws would have: a p of 1e-9 is found.
func onGrid(s sample, reassign bool) tail {
	reach := 0.0
	for _, t := range s.tasks {
		if reassign && !t.balanced() {
			reach += 12 * math.Sqrt(t.variance(true))
		} else {
			reach += 2 * math.Abs(t.drop())
		}
	}
	for step := reach * float64(len(s.tasks)) / maxCells; ; step *= 2 {
		sum := convolution{}
		for _, t := range s.tasks {
			sum.add(t.rounded(step, reassign))
		}
		if sum.cost() <= maxCells {
			return sum.tail()
		}
	}
}

// rounded is a task's drop and what else it could have been, in multiples of step.
func (t task) rounded(step float64, reassign bool) (drop int64, points []point) {
	if !reassign || t.balanced() {
		drop = int64(math.Round(t.drop() / step))
		return drop, eitherSign(drop)
	}
	points = []point{{0, 1}}
	for _, u := range t {
		var parts []part
		for i, v := range slices.Concat(u.base, u.head) {
			p := part{base: int64(math.Round(v / float64(len(u.base)) / step)), head: int64(math.Round(-v / float64(len(u.head)) / step))}
			if parts = append(parts, p); i < len(u.base) {
				drop += p.base
			} else {
				drop += p.head
			}
		}
		if points != nil && len(parts) <= maxReassign {
			points = combine(points, assignments(parts, len(u.head)))
		}
		if len(parts) > maxReassign || len(points) > maxPoints {
			points = nil // too many: their normal approximation does
		}
	}
	if points == nil {
		points = normalPoints(math.Sqrt(t.variance(true)) / step)
	}
	return drop, points
}

// part is what an attempt adds to its unit's drop on either side.
type part struct{ base, head int64 }

// assignments are the drops that come about when n of the parts are the head's and the others the baseline's, with the share of all
// ways that comes to each.
func assignments(parts []part, n int) []point {
	ways := make([]map[int64]float64, n+1) // by how many are the head's so far
	for i := range ways {
		ways[i] = map[int64]float64{}
	}
	ways[0][0] = 1
	for _, p := range parts {
		for chosen := n; chosen >= 0; chosen-- {
			next := make(map[int64]float64, len(ways[chosen]))
			for x, count := range ways[chosen] {
				next[x+p.base] += count
			}
			if chosen > 0 {
				for x, count := range ways[chosen-1] {
					next[x+p.head] += count
				}
			}
			ways[chosen] = next
		}
	}
	all := math.Exp(logChoose(len(parts), n))
	points := make([]point, 0, len(ways[n]))
	for _, x := range sortedKeys(ways[n]) {
		points = append(points, point{x, ways[n][x] / all})
	}
	return points
}

// normalPoints stand for a normal distribution around 0 with a standard deviation in steps.
func normalPoints(deviation float64) []point {
	const width = 0.05 // of a point, in standard deviations
	var points []point
	for i := -120; i <= 120; i++ {
		z := float64(i) * width
		chance := 0.5 * (math.Erfc((z-width/2)/math.Sqrt2) - math.Erfc((z+width/2)/math.Sqrt2))
		points = append(points, point{int64(math.Round(z * deviation)), chance})
	}
	return points
}
