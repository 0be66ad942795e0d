package paired

import (
	"cmp"
	"maps"
	"math"
	"math/bits"
	"slices"
)

// The methods of a test. The first two are exact.
const (
	MethodMcNemar = "McNemar's exact test"
	methodExact   = "exact paired permutation test"
	methodGrid    = "paired permutation test, rewards rounded to a grid"
	methodNormal  = "paired permutation test, normal approximation"
)

// Limits on the cost of a test. Beyond them it is approximated.
const (
	maxCells     = 50_000_000 // additions of a convolution
	maxDecimals  = 4          // of rewards that are scaled to integers
	maxScale     = 1_000_000  // integer steps per unit of reward
	maxEnumerate = 18         // tasks of which all 2^n sign changes are tried
	maxRelabel   = 12         // attempts at a task, both sides together, of which all relabelings are listed
	maxPoints    = 4096       // values of a task's drop; with more it is approximated by a normal distribution
)

// Tail holds the probabilities that a sum is above the observed one and that it is equal to it.
type Tail struct{ Above, Equal float64 }

// AtLeast returns the probability of a drop as large as the observed one, or larger.
func (t Tail) AtLeast() float64 { return min(1, t.Above+t.Equal) }

// Mid returns AtLeast with half of the probability of the observed drop.
func (t Tail) Mid() float64 { return min(1, t.Above+t.Equal/2) }

// PValue returns the probability of a drop as large as the sample's, or larger, if nothing changed.
// Then the two runs are exchangeable: each task's drop keeps its size and has either sign, so the
// sum of the drops has the distribution over all sign changes. This holds for any number of tasks
// and any rewards, and for attempts at one task that succeed and fail together within a run. Tasks
// without a difference add nothing.
//
// Half of the probability of the observed sum counts (mid-p). If all of it counted, the test would
// fail much less often than it may, and would detect little on small suites. With half of it the
// test keeps its level: the largest size of McNemar's mid-p test over all flip rates and 5 to 200
// tasks is 0.0501 at 0.05 (TestMidP computes it).
//
// The half is right only on the average over how many tasks differ, and by how much. If all of them
// differ in every run, and no two by the same amount, as costs and graded rewards do, n tasks have
// 2^n equally likely sums each time. With n = 4, the largest one has the mid-p 1/32 and happens in
// 1/16 of runs; with n = 5, the two largest have at most 0.047 and happen in 2/32. So if values are
// not only passes, and every task whose values vary differs, all of the probability counts. For
// more than eight such tasks, that changes p by less than a fifth of the significance level
// (TestMidPOfTasksThatAllDiffer).
//
// A task with more attempts on one side than on the other is not symmetric. Sign changes of such
// tasks are wrong if rewards are skewed and attempts independent; relabeling the attempts of a task
// is wrong if attempts of one run resemble each other. If there is such a task, p is the larger of
// the two, each without mid-p: with mid-p it would reach 6.8 % where 5 % are meant, without it 5.2
// % (see TestUnequalAttempts).
//
// Sources: R. A. Fisher, The Design of Experiments (1935), §21; E. J. G. Pitman, Suppl. J. R.
// Statist. Soc. 4 (1937) 119; Q. McNemar, Psychometrika 12 (1947) 153; M. Pagano and D. Tritchler,
// J. Am. Statist. Assoc. 78 (1983) 435 (convolution in whole numbers); H. O. Lancaster, J. Am.
// Statist. Assoc. 56 (1961) 223 and M. W. Fagerland et al., BMC Med. Res. Methodol. 13 (2013) 91
// (mid-p).
//
// A baseline of several runs has no signs. If nothing changed, each of its runs and the job are
// alike, so the run that is the job's is drawn anew for each task. Half of the probability of the
// observed sum counts here, too, but for values that all differ. Source: E. S. Edgington and P.
// Onghena, Randomization Tests (2007), §4.
func PValue(s Sample) (p float64, method string) {
	if s.Pooled() {
		t, method := runTail(s.Labels())
		if s.AllDiffer() {
			return t.AtLeast(), method
		}
		return t.Mid(), method
	}
	if s.Balanced() {
		t, method := PermutationTail(s, false)
		if s.AllDiffer() {
			return t.AtLeast(), method
		}
		return t.Mid(), method
	}
	flipped, method := PermutationTail(s, false)
	relabeled, other := PermutationTail(s, true)
	if relabeled.AtLeast() > flipped.AtLeast() {
		flipped, method = relabeled, other
	}
	return flipped.AtLeast(), method
}

// AllDiffer reports whether values are not only passes, and every task whose values vary differs
// between the sides.
func (s Sample) AllDiffer() bool {
	if s.Pooled() {
		return s.allLabelsDiffer()
	}
	return !s.Binary && !slices.ContainsFunc(s.Tasks, func(t Task) bool { return t.Drop() == 0 && !t.constant() })
}

// PermutationTail returns the tail of the sum of the tasks' drops, and the method. Each drop has
// either sign; if relabel is set, the attempts of tasks that are not balanced are assigned to the
// sides anew instead, each assignment with equal probability.
func PermutationTail(s Sample, relabel bool) (Tail, string) {
	exact := methodExact
	if s.MatchedPairs() {
		exact = MethodMcNemar
	}
	if t, ok := signTest(s, relabel); ok {
		return t, exact
	}
	if t, ok := exactConvolution(s, relabel); ok {
		return t, exact
	}
	if t, ok := enumerateSigns(s, relabel); ok {
		return t, exact
	}
	if t, ok := normalApproximation(s, relabel); ok {
		return t, methodNormal
	}
	return gridConvolution(s, relabel), methodGrid
}

// signTest returns the tail if all drops are of one size; then it is binomial. It returns false if
// they are not.
func signTest(s Sample, relabel bool) (Tail, bool) {
	down, up, size := 0, 0, 0.0
	for _, t := range s.Tasks {
		d := t.Drop()
		switch {
		case relabel && !t.balanced(), d != 0 && size != 0 && math.Abs(d) != size:
			return Tail{}, false
		case d > 0:
			down, size = down+1, d
		case d < 0:
			up, size = up+1, -d
		}
	}
	more := AtLeast(down+up, down+1, 0.5)
	return Tail{Above: more, Equal: AtLeast(down+up, down, 0.5) - more}, true
}

// point is a value that a task's drop can have, as an integer, with its probability.
type point struct {
	drop        int64
	probability float64
}

// exactConvolution returns the tail by convolution of integers. It returns false if the means of
// the sample cannot be scaled to integers, or if that costs too much.
func exactConvolution(s Sample, relabel bool) (Tail, bool) {
	attempts, decimals, ok := integerScale(s, relabel)
	if !ok {
		return Tail{}, false
	}
	sum := convolution{}
	for _, t := range s.Tasks {
		drop, points := t.points(attempts, decimals, s.Binary, relabel)
		sum.add(drop, points)
	}
	if sum.cost() > maxCells {
		return Tail{}, false
	}
	return sum.tail(), true
}

// convolution computes the distribution of a sum of independent drops.
type convolution struct {
	tasks    [][]point // each begins at 0
	observed int64     // the observed sum, less the smallest possible one
	step     int64     // divides every drop
}

// add adds a task with its observed drop. points may be in any order; add changes them.
func (c *convolution) add(drop int64, points []point) {
	if len(points) == 1 {
		return // it is constant
	}
	least := slices.MinFunc(points, func(a, b point) int { return cmp.Compare(a.drop, b.drop) }).drop
	for i := range points {
		points[i].drop -= least
		c.step = gcd(c.step, points[i].drop)
	}
	c.observed += drop - least
	c.tasks = append(c.tasks, points)
}

// largestDrop returns the largest drop of points, which begin at 0.
func largestDrop(points []point) int64 {
	most := int64(0)
	for _, p := range points {
		most = max(most, p.drop)
	}
	return most
}

// cost returns the number of additions that distribution makes, or a number above maxCells.
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

// distribution returns the probability of each sum, in multiples of step from 0.
func (c *convolution) distribution() []float64 {
	reach := int64(0)
	for _, points := range c.tasks {
		reach += largestDrop(points) / c.step
	}
	now := make([]float64, reach+1)
	var next []float64
	now[0] = 1
	filled := int64(0)
	for _, points := range c.tasks {
		grown := filled + largestDrop(points)/c.step
		if len(points) == 2 {
			addEither(now[:grown+1], filled, points)
		} else {
			if next == nil {
				next = make([]float64, reach+1)
			}
			clear(next[:grown+1])
			for _, p := range points {
				to := next[p.drop/c.step:][:filled+1]
				for i, before := range now[:filled+1] {
					to[i] += float64(before * p.probability) // rounded, so that no machine adds in the same step
				}
			}
			now, next = next, now
		}
		filled = grown
	}
	return now
}

// addEither adds a task with two points in place. Most tasks have two, and this takes a third of
// the time. sums beyond filled are 0.
func addEither(sums []float64, filled int64, points []point) {
	none, some := points[0].probability, points[1].probability
	if points[0].drop != 0 {
		none, some = some, none
	}
	grown := sums[int64(len(sums))-filled-1:]
	for i := filled; i >= 0; i-- {
		grown[i] = float64(grown[i]*none) + float64(sums[i]*some)
	}
	for i := range min(filled+1, int64(len(sums))-filled-1) {
		sums[i] *= none
	}
}

func (c *convolution) tail() Tail {
	if len(c.tasks) == 0 {
		return Tail{Equal: 1}
	}
	at := c.observed / c.step
	var t Tail
	for i, p := range c.distribution() {
		switch {
		case int64(i) > at:
			t.Above += p
		case int64(i) == at:
			t.Equal = p
		}
	}
	return t
}

// integerScale returns the scale at which every mean is an integer: attempts is a common multiple
// of the numbers of attempts, decimals is a power of ten by which every reward becomes an integer.
func integerScale(s Sample, relabel bool) (attempts, decimals int64, ok bool) {
	attempts, decimals = 1, 1
	for _, t := range s.Tasks {
		for _, u := range t {
			for _, n := range []int{len(u.Base), len(u.Head)} {
				attempts = attempts / gcd(attempts, int64(n)) * int64(n)
				if attempts > maxScale {
					return 0, 0, false
				}
			}
		}
	}
	if s.Scale != 1 || math.Abs(s.Low) > maxScale || math.Abs(s.High) > maxScale {
		return 0, 0, false
	}
	if s.Binary {
		return attempts, 1, true
	}
	if relabel && slices.ContainsFunc(s.Tasks, func(t Task) bool { return t.large() }) {
		return 0, 0, false
	}
	for range maxDecimals + 1 {
		whole := true
		s.each(func(v float64) {
			scaled := v * float64(decimals)
			whole = whole && math.Abs(scaled-math.Round(scaled)) < 1e-9
		})
		if whole {
			return attempts, decimals, attempts*decimals <= maxScale
		}
		decimals *= 10
	}
	return 0, 0, false
}

// large reports whether the task has too many attempts to list all their relabelings.
func (t Task) large() bool {
	return slices.ContainsFunc(t, func(u Unit) bool { return !u.balanced() && len(u.Base)+len(u.Head) > maxRelabel })
}

// points returns a task's drop, and all values that it could have had if nothing changed.
func (t Task) points(attempts, decimals int64, binary, relabel bool) (drop int64, points []point) {
	relabel = relabel && !t.balanced()
	points = []point{{0, 1}}
	for _, u := range t {
		base, head := wholes(u.Base, decimals), wholes(u.Head, decimals)
		perBase, perHead := attempts/int64(len(base)), attempts/int64(len(head))
		drop += total(base)*perBase - total(head)*perHead
		if relabel {
			points = combine(points, relabeledDrops(base, head, perBase, perHead, binary))
		}
	}
	if relabel {
		return drop, points
	}
	return drop, eitherSign(drop)
}

// eitherSign returns a drop with either sign.
func eitherSign(drop int64) []point {
	if drop == 0 {
		return []point{{0, 1}}
	}
	return []point{{drop, 0.5}, {-drop, 0.5}}
}

// relabeledDrops returns the drops of all ways to assign a unit's attempts to two sides of the same
// sizes. If attempts pass or not, the number of passes on one side is hypergeometric.
func relabeledDrops(base, head []int64, perBase, perHead int64, binary bool) []point {
	if !binary {
		var parts []part
		for _, v := range slices.Concat(base, head) {
			parts = append(parts, part{base: v * perBase, head: -v * perHead})
		}
		return relabelings(parts, len(head))
	}
	var points []point
	passed, all, side := int(total(base)+total(head)), len(base)+len(head), len(head)
	for x := max(0, side-(all-passed)); x <= min(side, passed); x++ {
		probability := math.Exp(LogChoose(passed, x) + LogChoose(all-passed, side-x) - LogChoose(all, side))
		points = append(points, point{int64(passed-x)*perBase - int64(x)*perHead, probability})
	}
	return points
}

// combine returns the distribution of the sum of two independent drops.
func combine(a, b []point) []point {
	sums := map[int64]float64{}
	for _, x := range a {
		for _, y := range b {
			sums[x.drop+y.drop] += x.probability * y.probability
		}
	}
	var out []point
	for _, drop := range slices.Sorted(maps.Keys(sums)) {
		out = append(out, point{drop, sums[drop]})
	}
	return out
}

// enumerateSigns returns the tail by trying all sign changes, each differing from the last in one
// sign (Gray code). It returns false if there are too many, or if attempts have to be relabeled.
func enumerateSigns(s Sample, relabel bool) (Tail, bool) {
	if relabel && !s.Balanced() {
		return Tail{}, false
	}
	var signed []float64
	sum, size := 0.0, 0.0
	for _, t := range s.Tasks {
		if d := t.Drop(); d != 0 {
			signed = append(signed, d)
			sum += d
			size += math.Abs(d)
		}
	}
	if len(signed) > maxEnumerate {
		return Tail{}, false
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
	return Tail{Above: float64(above) / all, Equal: float64(equal) / all}, true
}

// normalApproximation returns the tail of a sum of so many drops of similar size that it is normal:
// the error is of the order of the largest drop's share of the variance. It returns false if one
// drop's share is too large.
func normalApproximation(s Sample, relabel bool) (Tail, bool) {
	sum, variance, largest := 0.0, 0.0, 0.0
	for _, t := range s.Tasks {
		v := t.variance(relabel)
		sum += t.Drop()
		variance += v
		largest = max(largest, v)
	}
	if variance == 0 || largest > variance/1000 {
		return Tail{}, false
	}
	return Tail{Above: 0.5 * math.Erfc(sum/math.Sqrt(2*variance))}, true
}

// variance returns the variance of a task's drop if nothing changed. Source for relabeled attempts:
// W. G. Cochran, Sampling Techniques (3rd ed. 1977), §2.5 (drawing without replacement).
func (t Task) variance(relabel bool) float64 {
	if !relabel || t.balanced() {
		return t.Drop() * t.Drop()
	}
	v := 0.0
	for _, u := range t {
		v += Variance(slices.Concat(u.Base, u.Head)) * (1/float64(len(u.Base)) + 1/float64(len(u.Head)))
	}
	return v
}

// gridConvolution returns the tail by convolution of drops that are rounded to as fine a grid as
// maxCells allows. The error of the sum is about the square root of the number of tasks, in steps
// of the grid; its standard deviation is many times larger. Unlike random draws this has no
// smallest p: it finds a p of 1e-9.
func gridConvolution(s Sample, relabel bool) Tail {
	reach := 0.0
	for _, t := range s.Tasks {
		if relabel && !t.balanced() {
			reach += 12 * math.Sqrt(t.variance(true))
		} else {
			reach += 2 * math.Abs(t.Drop())
		}
	}
	for step := reach * float64(len(s.Tasks)) / maxCells; ; step *= 2 {
		sum := convolution{}
		for _, t := range s.Tasks {
			sum.add(t.rounded(step, relabel))
		}
		if sum.cost() <= maxCells {
			return sum.tail()
		}
	}
}

// rounded returns the result of points, in multiples of step.
func (t Task) rounded(step float64, relabel bool) (drop int64, points []point) {
	if !relabel || t.balanced() {
		drop = int64(math.Round(t.Drop() / step))
		return drop, eitherSign(drop)
	}
	points = []point{{0, 1}}
	for _, u := range t {
		var parts []part
		for i, v := range slices.Concat(u.Base, u.Head) {
			p := part{base: int64(math.Round(v / float64(len(u.Base)) / step)), head: int64(math.Round(-v / float64(len(u.Head)) / step))}
			if parts = append(parts, p); i < len(u.Base) {
				drop += p.base
			} else {
				drop += p.head
			}
		}
		if points != nil && len(parts) <= maxRelabel {
			points = combine(points, relabelings(parts, len(u.Head)))
		}
		if len(parts) > maxRelabel || len(points) > maxPoints {
			points = nil // too many: see below
		}
	}
	if points == nil {
		points = normalPoints(math.Sqrt(t.variance(true)) / step)
	}
	return drop, points
}

// part is the contribution of an attempt to its unit's drop on the baseline's and on the head's
// side.
type part struct{ base, head int64 }

// relabelings returns the distribution of the drop over all ways to choose n of the parts for the
// head and the others for the baseline.
func relabelings(parts []part, n int) []point {
	ways := make([]map[int64]float64, n+1) // by how many parts are the head's so far
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
	all := math.Exp(LogChoose(len(parts), n))
	points := make([]point, 0, len(ways[n]))
	for _, x := range slices.Sorted(maps.Keys(ways[n])) {
		points = append(points, point{x, ways[n][x] / all})
	}
	return points
}

// normalPoints returns points that approximate a normal distribution around 0. deviation is its
// standard deviation in steps.
func normalPoints(deviation float64) []point {
	const width = 0.05 // of a point, in standard deviations
	var points []point
	for i := -120; i <= 120; i++ {
		z := float64(i) * width
		probability := 0.5 * (math.Erfc((z-width/2)/math.Sqrt2) - math.Erfc((z+width/2)/math.Sqrt2))
		points = append(points, point{int64(math.Round(z * deviation)), probability})
	}
	return points
}
