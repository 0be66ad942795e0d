package gate

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

// How a drop was told from luck. The first two are exact.
const (
	methodMcNemar = "McNemar's exact test"
	methodExact   = "exact paired permutation test"
	methodDrawn   = "paired permutation test, random draws"
	methodNormal  = "paired permutation test, normal approximation"
)

// What a test may cost; beyond, it is approximated.
const (
	maxCells     = 50_000_000 // additions of the exact test on a lattice
	maxDecimals  = 4          // of rewards on a lattice
	maxLattice   = 1_000_000  // its points per unit of reward
	maxEnumerate = 18         // tasks whose 2^n sign changes are all tried
	maxDealt     = 12         // attempts at a task, both sides together, whose deals are all listed
	maxDraws     = 99_999
	minDraws     = 999
	maxFlips     = 20_000_000 // draws × attempts
)

// luck is the chance that a drop as large as the sample's, or larger, comes about although nothing changed. Then the two
// sides of a task could as well be the other way round: each task's drop keeps its size and has either sign, so
// that p is the share of all sign changes whose sum is at least the one seen. This holds for every sample
// size and any rewards, and for attempts of one task that succeed and fail together. Tasks without a difference
// add nothing to either side. A task that has more attempts on one side than on the other is not symmetric;
// its attempts are dealt anew to the two sides, every deal being as likely.
//
// On a lattice (means of a few attempts with rewards of few decimals are) the distribution of the sum is made task by
// task in whole numbers, which is exact. With one attempt that passes or not, it is McNemar's exact test.
// Otherwise all 2^n sign changes are tried, or, with many tasks, random ones (with a fixed seed; the sample itself
// counts as one, so that p is never too small), or, with very many of similar size, the normal approximation is used.
//
// Sources: R. A. Fisher, The Design of Experiments (1935), §21; E. J. G. Pitman, Suppl. J. R. Statist. Soc. 4 (1937) 119;
// Q. McNemar, Psychometrika 12 (1947) 153; M. Pagano and D. Tritchler, J. Am. Statist. Assoc. 78 (1983) 435 (whole
// numbers); B. Phipson and G. K. Smyth, Statist. Appl. Genet. Mol. Biol. 9 (2010) 39 (random draws).
func luck(s sample) (p float64, method string) {
	exact := methodExact
	if s.single() {
		exact = methodMcNemar
	}
	if p, ok := signs(s); ok {
		return p, exact
	}
	if p, ok := lattice(s); ok {
		return p, exact
	}
	if p, ok := enumerate(s); ok {
		return p, exact
	}
	if p, ok := normal(s); ok {
		return p, methodNormal
	}
	return draw(s), methodDrawn
}

// signs is the test where all drops are of one size: a binomial count.
func signs(s sample) (float64, bool) {
	down, up, size := 0, 0, 0.0
	for _, t := range s.tasks {
		d := t.drop()
		switch {
		case !t.balanced(), d != 0 && size != 0 && math.Abs(d) != size:
			return 0, false
		case d > 0:
			down, size = down+1, d
		case d < 0:
			up, size = up+1, -d
		}
	}
	return atLeast(down+up, down, 0.5), true
}

// deal is what one task's drop can be under luck, in whole numbers of 1/scale: a value and how likely it is.
type deal struct {
	drop   int64
	chance float64
}

// lattice is the test in whole numbers, if the sample has them and they are few enough.
func lattice(s sample) (float64, bool) {
	scale, decimals, ok := latticeOf(s)
	if !ok {
		return 0, false
	}
	observed, least, step := int64(0), int64(0), int64(0)
	var tasks [][]deal
	for _, t := range s.tasks {
		drop, deals := dealsOf(t, scale, decimals, s.binary)
		observed += drop
		if len(deals) == 1 {
			observed -= deals[0].drop
			continue
		}
		low := deals[0].drop
		for _, d := range deals {
			low = min(low, d.drop)
		}
		for i := range deals {
			deals[i].drop -= low
			step = gcd(step, deals[i].drop)
		}
		least += low
		tasks = append(tasks, deals)
	}
	if len(tasks) == 0 {
		return 1, true
	}
	return convolve(tasks, step, observed-least)
}

// convolve is the chance that a sum of one deal of each task is at least observed. Deals are multiples of step, from 0.
func convolve(tasks [][]deal, step, observed int64) (float64, bool) {
	reach, cost := int64(0), int64(0)
	for _, deals := range tasks {
		largest := int64(0)
		for _, d := range deals {
			largest = max(largest, d.drop/step)
		}
		reach += largest
		cost += reach * int64(len(deals))
		if cost > maxCells {
			return 0, false
		}
	}
	now, next := make([]float64, reach+1), make([]float64, reach+1)
	now[0] = 1
	filled := int64(0)
	for _, deals := range tasks {
		clear(next)
		largest := int64(0)
		for _, d := range deals {
			by := d.drop / step
			largest = max(largest, by)
			for i, chance := range now[:filled+1] {
				next[int64(i)+by] += chance * d.chance
			}
		}
		filled += largest
		now, next = next, now
	}
	p := 0.0
	for i := (observed + step - 1) / step; i <= reach; i++ {
		p += now[i]
	}
	return min(p, 1), true
}

// latticeOf finds the scale at which every mean is a whole number: attempts is a common multiple of the numbers of
// attempts, decimals is the power of ten of the rewards' decimals.
func latticeOf(s sample) (attempts, decimals int64, ok bool) {
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
	if !s.dealable() {
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

// dealable: no task has so many ways to be dealt anew that they cannot be listed.
func (s sample) dealable() bool {
	for _, t := range s.tasks {
		for _, u := range t {
			if !t.balanced() && len(u.base)+len(u.head) > maxDealt {
				return false
			}
		}
	}
	return true
}

// dealsOf is a task's drop and what else it could have been.
func dealsOf(t task, attempts, decimals int64, binary bool) (drop int64, deals []deal) {
	deals = []deal{{0, 1}}
	for _, u := range t {
		base, head := wholes(u.base, decimals), wholes(u.head, decimals)
		perBase, perHead := attempts/int64(len(base)), attempts/int64(len(head))
		drop += total(base)*perBase - total(head)*perHead
		if !t.balanced() {
			deals = combine(deals, dealt(base, head, perBase, perHead, binary))
		}
	}
	switch {
	case !t.balanced():
		return drop, deals
	case drop == 0:
		return 0, deals
	}
	return drop, []deal{{drop, 0.5}, {-drop, 0.5}}
}

// dealt are the drops of all ways to deal a unit's attempts to two sides of their sizes. Of attempts that pass or not,
// a hypergeometric number falls to one side.
func dealt(base, head []int64, perBase, perHead int64, binary bool) []deal {
	sum := total(base) + total(head)
	sums := map[int64]float64{}
	if binary {
		all, passed, side := len(base)+len(head), int(sum), len(head)
		for x := max(0, side-(all-passed)); x <= min(side, passed); x++ {
			sums[int64(x)] = math.Exp(logChoose(passed, x) + logChoose(all-passed, side-x) - logChoose(all, side))
		}
	} else {
		sums = choices(append(append([]int64{}, base...), head...), len(head))
	}
	deals := make([]deal, 0, len(sums))
	for _, x := range sortedKeys(sums) {
		deals = append(deals, deal{(sum-x)*perBase - x*perHead, sums[x]})
	}
	return deals
}

// choices are the sums of n of the values, with the share of all choices that comes to each.
func choices(values []int64, n int) map[int64]float64 {
	ways := make([]map[int64]float64, n+1) // by how many are chosen so far
	for i := range ways {
		ways[i] = map[int64]float64{}
	}
	ways[0][0] = 1
	for _, v := range values {
		for chosen := n; chosen >= 1; chosen-- {
			for x, count := range ways[chosen-1] {
				ways[chosen][x+v] += count
			}
		}
	}
	all := math.Exp(logChoose(len(values), n))
	for x := range ways[n] {
		ways[n][x] /= all
	}
	return ways[n]
}

// combine is the sum of two independent deals.
func combine(a, b []deal) []deal {
	sums := map[int64]float64{}
	for _, x := range a {
		for _, y := range b {
			sums[x.drop+y.drop] += x.chance * y.chance
		}
	}
	var out []deal
	for _, drop := range sortedKeys(sums) {
		out = append(out, deal{drop, sums[drop]})
	}
	return out
}

// enumerate tries all sign changes, each differing from the last in one sign (Gray code).
func enumerate(s sample) (float64, bool) {
	drops, ok := flippable(s)
	if !ok || len(drops) > maxEnumerate {
		return 0, false
	}
	sum, size := 0.0, 0.0
	for _, d := range drops {
		sum += d
		size += math.Abs(d)
	}
	signed := append([]float64{}, drops...)
	limit, count := sum-size*1e-12, 1
	for i := uint64(1); i < 1<<len(drops); i++ {
		bit := bits.TrailingZeros64(i)
		sum -= 2 * signed[bit]
		signed[bit] = -signed[bit]
		if sum >= limit {
			count++
		}
	}
	return float64(count) / float64(uint64(1)<<len(drops)), true
}

// flippable are the drops that are not 0; false if a task is not symmetric.
func flippable(s sample) ([]float64, bool) {
	var drops []float64
	for _, t := range s.tasks {
		if !t.balanced() {
			return nil, false
		}
		if d := t.drop(); d != 0 {
			drops = append(drops, d)
		}
	}
	return drops, true
}

// normal is the test for so many drops of similar size that their sum is as good as normal under luck: the error of p
// is of the order of the largest one's share of the variance.
func normal(s sample) (float64, bool) {
	sum, variance, largest := 0.0, 0.0, 0.0
	for _, t := range s.tasks {
		v := t.variance()
		sum += t.drop()
		variance += v
		largest = max(largest, v)
	}
	if variance == 0 || largest > variance/1000 {
		return 0, false
	}
	return 0.5 * math.Erfc(sum/math.Sqrt(2*variance)), true
}

// variance is that of a task's drop under luck. Source for tasks that are dealt anew: W. G. Cochran, Sampling
// Techniques (3rd ed. 1977), §2.5 (drawing without replacement).
func (t task) variance() float64 {
	if t.balanced() {
		return t.drop() * t.drop()
	}
	v := 0.0
	for _, u := range t {
		all := append(append([]float64{}, u.base...), u.head...)
		v += variance(all) * (1/float64(len(u.base)) + 1/float64(len(u.head)))
	}
	return v
}

// draw tries random sign changes and deals.
func draw(s sample) float64 {
	rng := rand.New(rand.NewPCG(5, 1935))
	sum, size := 0.0, 0.0
	for _, t := range s.tasks {
		sum += t.drop()
		size += math.Abs(t.drop())
	}
	values := 0
	s.each(func(float64) { values++ })
	draws := max(minDraws, min(maxDraws, maxFlips/max(1, values)))
	limit, count := sum-size*1e-12, 1
	drops := s.taskDrops()
	for range draws {
		x := 0.0
		for i, t := range s.tasks {
			switch {
			case !t.balanced():
				x += t.shuffled(rng)
			case rng.Uint64()&1 == 0:
				x += drops[i]
			default:
				x -= drops[i]
			}
		}
		if x >= limit {
			count++
		}
	}
	return float64(count) / float64(draws+1)
}

func (s sample) taskDrops() []float64 {
	out := make([]float64, len(s.tasks))
	for i, t := range s.tasks {
		out[i] = t.drop()
	}
	return out
}

// shuffled is the drop after the attempts of each unit were dealt anew.
func (t task) shuffled(rng *rand.Rand) float64 {
	drop := 0.0
	for _, u := range t {
		all := append(append([]float64{}, u.base...), u.head...)
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		drop += unit{base: all[:len(u.base)], head: all[len(u.base):]}.drop()
	}
	return drop
}
